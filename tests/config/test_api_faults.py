"""Wrong keys of APIs are named like all others, and no message shows what may be a secret."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.config import load
from gloveport.config.checks.cross_checks import rule_faults
from gloveport.config.schema import Config
from gloveport.config.toml_text import spell_key
from gloveport.config.validation.faults import validate
from gloveport.errors import ConfigError
from gloveport.model.constraints import shape_of
from gloveport.model.egress import Api, Auth, Rule
from gloveport.model.type_shapes import members
from gloveport.model.value import fields_of

HOST = 'hosts = ["api.example.com"]\n'


@pytest.fixture
def faults(tmp_path):
    def lines(text):
        file = tmp_path / "x.toml"
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(file, cwd=tmp_path, environ={"GLOVEPORT_STATE": "/nonexistent/state"})
        _, *rest, _ = str(caught.value).split("\n")
        return [line.removeprefix(f"{file}:") for line in rest]

    return lines


@pytest.fixture
def fault(faults):
    def line(text):
        (only,) = faults(text)
        return only

    return line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apis.x.hosts = []", "1: apis: unknown key; hint: did you mean api?"),
        (f"[api.x]\n{HOST}host = 1", "3: api.x.host: unknown key; hint: did you mean api.x.hosts?"),
        (f"[api.x]\n{HOST}methods = []", "3: api.x.methods: unknown key; hint: did you mean api.x.rules[0].methods?"),
        ("yolo = true", "1: yolo: unknown key; hint: did you mean egress.yolo?"),
        ("hosts = []", "1: hosts: unknown key; hint: did you mean api.NAME.hosts?"),
        ("[api.x]", "1: api.x.hosts: missing; expected an array, not empty, each element text; hint: write it as"),
        ("[api.x]\nhosts = []", "2: api.x.hosts: expected an array, not empty, each element text, found an array of 0"),
        ("[api.x]\nhosts = 'a'", "2: api.x.hosts: expected an array, not empty"),
        ("[api.x]\nhosts = ['a', 3]", "2: api.x.hosts[1]: expected text, found 3"),
        (f"[api.'X y']\n{HOST}", '1: api."X y": expected a name of at most 64 small letters, digits, - and _; hint: '),
        ("api = 3", "1: api: expected a table, each key a name of at most 64 small letters"),
        ("api.x = 3", "1: api.x: expected a table, found neither text, table nor array; hint: its keys are: desc"),
        (f"[api.x]\n{HOST}active = 1", "3: api.x.active: expected true or false, found 1"),
        (f"[api.x]\n{HOST}ca_file = 'x'", '3: api.x.ca_file: expected an absolute path, found "x"'),
        (f"[api.x]\n{HOST}networks = ['10.0.0.1/8']", '3: api.x.networks[0]: expected a network, found "10.0.0.1/8"'),
        (f"[api.x]\n{HOST}networks = [1]", "3: api.x.networks[0]: expected a network, found 1"),
        (f"[api.x]\n{HOST}addresses = [true]", "3: api.x.addresses[0]: expected an IP address, found true"),
        (f"[api.x]\n{HOST}addresses = ['x']", '3: api.x.addresses[0]: expected an IP address, found "x"'),
        ("egress.redact = ['abc']", '1: egress.redact[0]: expected text, of at least 4 characters, found "abc"'),
        ('egress.user_agent = "a\\nb"', '1: egress.user_agent: expected text in one line, found "a\\nb"'),
    ],
)
def test_a_fault_of_an_api_says_where_and_what_to_do(fault, text, expected):
    """N2, T3"""
    assert fault(text).startswith(expected)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "action = 'alow'",
            '.action: expected one of "allow", "deny", "ask", found "alow"; hint: did you mean "allow"?',
        ),
        ("methods = ['GET']", ".action: missing; expected one of"),
        ("action = 'deny'\nmethods = ['get']", '.methods[0]: expected an HTTP method in capitals, found "get"'),
        (
            "action = 'deny'\npaths = ['x']",
            '.paths[0]: expected the path of a URL, found "x"; hint: write it from "/" on',
        ),
        ("action = 'deny'\npaths = ['/x?y']", ".paths[0]: expected the path of a URL"),
        ("action = 'deny'\npath = ['/x']", ".path: unknown key; hint: did you mean api.x.rules[1].paths?"),
    ],
)
def test_a_fault_in_a_rule_names_the_rule(fault, rule, expected):
    """N2, T3"""
    line = fault(f"[api.x]\n{HOST}[[api.x.rules]]\naction = 'deny'\n[[api.x.rules]]\n{rule}")
    assert f": api.x.rules[1]{expected}" in line
    assert int(line.split(":")[0]) in {5, 6, 7}


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("kind = 'bearr'\nsecret = 'env:X'", '4: api.x.auth[0].kind: expected one of "bearer", "basic"'),
        ("kind = 3", '4: api.x.auth[0].kind: expected one of "bearer"'),
        ("secret = 'env:X'", "3: api.x.auth[0].kind: missing; expected one of"),
        (
            "kind = 'bearer'",
            "3: api.x.auth[0].secret: missing; expected where a secret is, never the secret itself; hint",
        ),
        ("kind = 'header'\nsecret = 'env:X'", "3: api.x.auth[0].name: missing; expected the name of a header; hint"),
        (
            "kind = 'bearer'\nsecret = 'env:X'\nprefix = 'x'",
            "6: api.x.auth[0].prefix: unknown key; hint: the keys here are: kind, secret",
        ),
        (
            "kind = 'bearer'\nsecret = 'env:X'\ntoken = 'x'",
            "6: api.x.auth[0].token: unknown key; hint: the keys here are: kind, secret",
        ),
        (
            "kind = 'placeholder'\nname = 'X'\nsecret = 'env:X'\nplaces = ['body']",
            '7: api.x.auth[0].places[0]: expected one named place of a request, found "body"; hint: write "header',
        ),
        (
            "kind = 'placeholder'\nname = 'X'\nsecret = 'env:X'\nplaces = []",
            "7: api.x.auth[0].places: expected an array, not empty, each element one named place",
        ),
        (
            "kind = 'oauth2_client_credentials'\ntoken_url = 'http://x'\nclient_id = 'x'\nclient_secret = 'env:X'",
            '5: api.x.auth[0].token_url: expected an https:// address, found "http://x"',
        ),
    ],
)
def test_a_fault_in_an_auth_speaks_of_the_chosen_kind(fault, auth, expected):
    """N5, T3"""
    assert fault(f"[api.x]\n{HOST}[[api.x.auth]]\n{auth}").startswith(expected)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("ENV:SK-LIVE", 'schemes are small letters: write "env:"'),
        (" file:/SK-LIVE", 'schemes are small letters: write "file:"'),
        ("file:SK-LIVE", 'write the whole path from "/" on; "~" and variables are not expanded: "file:/path"'),
        ("file:~/SK-LIVE", 'write the whole path from "/" on; "~" and variables are not expanded: "file:/path"'),
        ("json:/SK-LIVE", 'write the whole path from "/" on and then the member; '),
        ("env:SK LIVE", "write the name of the variable alone, of letters, digits and _, without spaces and"),
        ("env:$SK-LIVE", "write the name of the variable alone"),
        ("keyring:SK-LIVE", 'write the service, a slash and the user: "keyring:SERVICE/USER"'),
        ("command:", 'write the program and its arguments: "command:PROGRAM ARGUMENT"'),
        ("SK-LIVE", "this looks like the secret itself: move it to a file or the environment"),
        ("user:SK-LIVE", "this looks like the secret itself"),
        ("", 'say where it is: "file:/path" or "env:NAME"'),
    ],
)
def test_a_fault_of_a_secret_says_what_to_do_and_nothing_of_the_secret(fault, written, hint):
    """T3, T4: not in errors."""
    line = fault(f"[api.x]\n{HOST}[[api.x.auth]]\nkind = 'bearer'\nsecret = '{written}'")
    assert line.startswith("5: api.x.auth[0].secret: expected where a secret is, never the secret itself, found ")
    assert f"; hint: {hint}" in line
    assert "LIVE" not in line


def test_a_secret_that_was_shared_is_to_be_revoked(fault):
    """T4"""
    line = fault(f"[api.x]\n{HOST}[[api.x.auth]]\nkind = 'bearer'\nsecret = 'SK-LIVE'")
    assert line.endswith("; if this file was shared, revoke it")


@pytest.mark.parametrize("key", ["rules", "auth"])
@pytest.mark.parametrize("text", ["[api.x.{}]\nkind = 'bearer'", "{} = {{ kind = 'bearer' }}"])
def test_one_table_in_the_place_of_many_is_told_of_the_second_bracket(fault, key, text):
    """T3"""
    hint = f"; hint: write [[api.x.{key}]], with two brackets; in a file of its own [[{key}]]"
    assert fault(f"[api.x]\n{HOST}{text.format(key)}").endswith(f"found a table{hint}")


def test_the_hint_of_an_array_has_the_elements_that_it_takes(faults):
    """T3"""
    hosts, rules = faults("[api.x]\nhosts = 'a'\nrules = 3")
    assert hosts.endswith('hint: write it as ["a", "b"]')
    assert rules.endswith("hint: write it as [{ ... }, { ... }]")


def test_what_was_meant_is_guessed_from_the_kinds(fault):
    line = fault(f"[api.x]\n{HOST}[[api.x.auth]]\nkind = 'bearr'\nsecret = 'env:X'")
    assert line.endswith('found "bearr"; hint: did you mean "bearer"?')


@pytest.mark.parametrize(
    "text",
    [
        "[[api.x.auth]]\nkind = 'bearer'\nsecret = 'SK-LIVE'",
        "[[api.x.auth]]\nkind = 'bearer'\nsecret = ['SK-LIVE']",
        "[[api.x.auth]]\nkind = 'sigv4'\nsession_token = 'SK-LIVE'",
        "auth = 'SK-LIVE'",
        "auth = ['SK-LIVE']",
        "auth = { kind = 'bearer', secret = 'SK-LIVE' }",
        "token = 'SK-LIVE'",
        "[[api.x.auth]]\nkind = 'bearer'\nsecret = 'env:SK-LIVE'",
    ],
)
def test_a_secret_that_was_written_into_the_file_is_in_no_message(faults, text):
    """T4: not in errors."""
    lines = faults(f"[api.x]\n{HOST}{text}")
    assert lines
    assert not any("SK-LIVE" in line for line in lines)


def test_faults_of_shape_and_rules_of_many_apis_are_named_at_once(faults):
    """T3"""
    lines = faults(
        """\
[api.one]
hosts = ["api.example.com", "a b"]
activ = true
[[api.one.auth]]
kind = "bearer"
[[api.one.auth]]
kind = "header"
name = "X Key"
secret = "env:X"
[[api.one.auth]]
kind = "header"
name = "Host"
secret = "env:X"
[api.two]
hosts = ["api.example.com"]
networks = ["0.0.0.0/0"]
"""
    )
    named = (line.split(": ")[:2] for line in lines)
    assert sorted(named, key=lambda place: int(place[0])) == [
        ["2", "api.one.hosts[1]"],
        ["3", "api.one.activ"],
        ["4", "api.one.auth[0].secret"],
        ["8", "api.one.auth[1].name"],
        ["10", "api.one.auth[2]"],
        ["15", "api.two.hosts[0]"],
        ["16", "api.two.networks[0]"],
    ]


KINDS = members(shape_of(Auth).form)
NAMES = sorted({name for table in (Api, Rule, *KINDS.values()) for name in fields_of(table)} | {"[key]", "x"})
LEAVES = st.sampled_from([*KINDS, "allow", "env:X", "api.example.com", "tcp://x:1", "/x", "", "10.0.0.0/8", "GET"])
DATA = st.recursive(
    LEAVES | st.text(max_size=3) | st.integers(-2, 70_000) | st.booleans() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "[key]", "bearer", ""]), DATA, max_size=3) | DATA)
def test_whatever_a_file_says_of_apis_is_valid_or_named_in_words(data):
    """T3: an error inside a check is a refusal, and never another kind of error."""
    text = {"api": data}
    config, faults = validate(Config, text)
    faults += rule_faults(text, own=())
    assert (config is None) <= bool(faults)
    for fault in faults:
        assert spell_key(fault.keys[0]).startswith("api")
        assert fault.problem
        assert fault.hint
        assert f"{fault.problem}{fault.hint}".isprintable()
        assert json.dumps(fault.keys)
