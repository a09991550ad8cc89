"""What the configuration says of other MCP servers, of sampling and of approvals."""

import certifi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.config import load, trust
from gloveport.config.checks.tool_rules import _covers
from gloveport.config.checks.upstream_servers import sampling_faults, server_faults
from gloveport.config.loading.reload import reload
from gloveport.config.toml_text import spell_key
from gloveport.errors import ConfigError
from gloveport.model.hub import Condition, OAuthLogin, Sampling, Server, ToolRule
from gloveport.model.value import fields_of

BEARER = {"kind": "bearer", "secret": "env:TOKEN"}


def problems(**servers):
    return [(spell_key(fault.keys[0]), fault.problem) for fault in server_faults({"servers": servers})]


def problem(**server):
    (only,) = problems(x=server)
    return only


def local(**keys):
    return {"command": ["server"], **keys}


def remote(url="https://mcp.example.com/mcp", **keys):
    return {"url": url, **keys}


def ruled(*rules):
    return problems(x=local(rules=list(rules)))


def loaded(home):
    return load(None, cwd=home.project, environ=home.environ)


def refusal(home):
    with pytest.raises(ConfigError) as caught:
        loaded(home)
    return str(caught.value)


FULL = """\
[servers."my.server"]
description = "Issues"
command = ["npx", "-y", "server", ""]
env = { LANG = "C", EMPTY = "" }
secret_env = { TOKEN = "env:TOKEN" }
directory = "/srv"
startup_seconds = 5
call_seconds = 6
calls_per_minute = 7
bytes_per_minute = "7MiB"
concurrent_calls = 8
answer_bytes = "1MiB"
active = false
rules = [{ action = "deny", tools = ["delete_*"], destructive = true, arguments = { "a.b" = { one_of = [1, "x"] } } }]
[servers.remote]
url = "https://mcp.example.com/mcp?x=1"
transport = "sse"
headers = { X-Team = "core" }
[[servers.remote.auth]]
kind = "oauth"
scopes = ["read"]
client_id = "me"
client_secret = "env:CLIENT"
issuer = "https://auth.example.com"
tokens = "keyring"
[sampling]
enabled = true
channel = "provider"
provider = "openai"
url = "http://localhost:11434/v1"
model = "small"
models = ["small", "large"]
rounds = 3
tokens = 100
timeout_seconds = 9
[approvals]
timeout_seconds = 10
channels = ["queue"]
"""


def test_every_key_arrives_where_it_belongs(home):
    """T5"""
    home.user_file.write_text(FULL)
    found = loaded(home)
    config = found.config
    assert set(config.servers) == {"my.server", "remote"}
    server, other = config.servers["my.server"], config.servers["remote"]
    assert {name for name, field in fields_of(Server).items() if getattr(server, name) == field.default} == {
        *("url", "transport", "headers", "auth", "ca_file")
    }
    assert other.auth[0] == OAuthLogin(
        kind="oauth",
        scopes=("read",),
        client_id="me",
        client_secret="env:CLIENT",
        issuer="https://auth.example.com",
        tokens="keyring",
    )
    assert {name for name, field in fields_of(Sampling).items() if getattr(config.sampling, name) == field.default} == {
        "secret"
    }
    assert (config.approvals.timeout_seconds, config.approvals.channels) == (10, ("queue",))
    assert found.origins['servers."my.server".env'] == f"{home.user_file}:4"
    assert found.origins["servers.remote.active"] == "default"


def test_servers_of_both_sorts_live_side_by_side():
    """H1. Names that differ only in what programs see as the same are none of this file's business."""
    found = problems(
        **{"a-b": local(), "a_b": local(), "A.b": remote(auth=[BEARER])},
        there=remote("http://10.0.0.5:8080/mcp", headers={"X-Team": "core"}),
        here=remote("http://127.0.0.1:8080/mcp", auth=[BEARER]),
    )
    assert found == []


@pytest.mark.parametrize("keys", [{}, {"description": "x"}, {"command": []}, {"url": ""}])
def test_a_server_that_is_reached_in_no_way_is_a_fault(keys):
    """H1, T3"""
    assert problem(**keys) == ("servers.x", "expected command or url, found neither")


def test_a_server_that_is_reached_in_two_ways_is_a_fault():
    assert problem(command=["a"], url="https://a.example") == ("servers.x.url", "expected command or url, found both")


@for_each(
    "server, key",
    [
        (remote(env={"A": "b"}), "env"),
        (remote(secret_env={"A": "env:A"}), "secret_env"),
        (remote(directory="/srv"), "directory"),
        (local(headers={"X-Team": "core"}), "headers"),
        (local(auth=[BEARER]), "auth"),
        (local(transport="sse"), "transport"),
        (local(ca_file=certifi.where()), "ca_file"),
    ],
)
def test_a_key_that_would_mean_nothing_is_a_fault(server, key):
    """T5: no key is without an effect."""
    found, text = problem(**server)
    assert found == f"servers.x.{key}"
    assert text.startswith("means nothing for a server that has")


def test_a_command_without_a_program_is_a_fault():
    assert problem(command=["", "x"]) == ("servers.x.command[0]", "expected a program, found nothing")


def test_a_variable_has_one_value():
    key, _ = problem(**local(env={"A": "b"}, secret_env={"A": "env:A"}))
    assert key == "servers.x.env.A"


@for_each(
    "url",
    [
        *("http://mcp.example.com/mcp", "http://10.0.0.5/", "http://localhost.example.com/", "http://128.0.0.1/"),
        "http://[fd00::1]/",
    ],
)
def test_credentials_never_leave_this_machine_in_clear_text(url):
    """H1, N5"""
    key, text = problem(**remote(url, auth=[BEARER]))
    assert key == "servers.x.url"
    assert text.startswith("expected https, because a credential is sent to it")


@for_each("host", ["localhost", "LOCALHOST.", "mcp.localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_what_stays_on_this_machine_needs_no_encryption(host):
    assert problems(x=remote(f"http://{host}:8080/mcp", auth=[BEARER])) == []


@pytest.mark.parametrize("url", ["https:///mcp", "https://[::1/", "https://x.com:99999/", "https://127.1/"])
def test_an_address_that_may_be_read_in_two_ways_is_a_fault(url):
    """T3"""
    key, _ = problem(**remote(url))
    assert key == "servers.x.url"


def test_an_address_of_the_wrong_shape_is_a_fault(home):
    home.user_file.write_text("[servers.x]\nurl = 'HTTP://a b'\n")
    assert "servers.x.url: expected an http:// or https:// address" in refusal(home)


def test_what_stands_in_an_address_is_not_shown(home):
    """T4: it may be a password, or a key."""
    home.user_file.write_text("[servers.a]\nurl = 'https://me:hunter2hunter2@example.com/'\n")
    assert "hunter2" not in refusal(home)
    home.user_file.write_text("[servers.a]\nurl = 'https://127.1/?key=hunter2hunter2'\n")
    assert "hunter2" not in refusal(home)
    home.user_file.write_text('[servers.a]\ncommand = ["a"]\nenv = { PIN = "hunter2\\u0000" }\n')
    assert "hunter2" not in refusal(home)


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Cookie", "Proxy-Authorization"])
def test_a_secret_header_is_no_plain_one(name):
    """T4"""
    key, text = problem(**remote(headers={name: "Bearer x"}))
    assert (key, text) == (f"servers.x.headers.{name}", "expected a header that is no secret")


@for_each("name", ["Host", "content-length", "Transfer-Encoding", "Mcp-Session-Id", "Accept"])
def test_what_the_protocol_says_nobody_else_says(name):
    key, text = problem(**remote(headers={name: "x"}))
    assert key == f"servers.x.headers.{name}"
    assert "not the protocol's own" in text
    key, _ = problem(**remote(auth=[{"kind": "header", "name": name, "secret": "env:X"}]))
    assert key == "servers.x.auth[0]"


def test_a_file_of_authorities_has_to_hold_some(tmp_path):
    """T3"""
    assert problems(x=remote(ca_file=certifi.where())) == []
    (tmp_path / "empty.pem").write_text("")
    for name in ("empty.pem", "gone.pem"):
        key, text = problem(**remote(ca_file=str(tmp_path / name)))
        assert key == "servers.x.ca_file"
        assert text.startswith("expected a file of certificates")


@pytest.mark.parametrize(
    "server",
    [
        remote(auth=[BEARER, {"kind": "oauth"}]),
        remote(auth=[BEARER, {"kind": "header", "name": "AUTHORIZATION", "secret": "env:X"}]),
        remote(headers={"X-Key": "a"}, auth=[{"kind": "header", "name": "x-key", "secret": "env:X"}]),
    ],
)
def test_a_place_holds_one_credential(server):
    """N5: of two, which would be sent?"""
    _, text = problem(**server)
    assert "expected a place of its own" in text


@for_each(
    "condition, found",
    [
        ({}, "none"),
        ({"prefix": ""}, "none"),
        ({"one_of": []}, "none"),
        ({"equals": 1, "prefix": "a"}, "equals and prefix"),
        ({"beneath": "/srv", "url": "public"}, "beneath and url"),
    ],
)
def test_a_condition_says_one_thing(condition, found):
    """H5, T3"""
    ((key, text),) = ruled({"action": "allow", "arguments": {"a.b": condition}})
    assert key == 'servers.x.rules[0].arguments."a.b"'
    assert text == f"expected one condition, found {found}"


@for_each("equals", [False, 0, "", [], {}])
def test_a_value_that_is_nothing_is_a_value(equals):
    assert ruled({"action": "allow", "arguments": {"a": {"equals": equals}}}) == []


def test_a_value_that_no_argument_can_have_is_a_fault(home):
    home.user_file.write_text(
        '[servers.x]\ncommand = ["x"]\n'
        'rules = [{ action = "deny", arguments = { a = { equals = inf }, b = { one_of = [{ c = [nan] }] } } }]\n'
    )
    text = refusal(home)
    assert "arguments.a.equals" in text
    assert "arguments.b.one_of" in text


@for_each("pattern", ["(", "(?=x)", r"(a)\1", "a)|(b", "(?x)a # b", "[z-a]", "a{1000}{1000}{1000}"])
def test_a_pattern_that_could_run_wild_or_leave_its_place_is_a_fault(pattern):
    """H5, T3"""
    ((key, text),) = ruled({"action": "allow", "arguments": {"a": {"pattern": pattern}}})
    assert key == "servers.x.rules[0].arguments.a.pattern"
    assert "expected a regular expression" in text


@pytest.mark.parametrize("pattern", ["a+", r"[a-z]{1,8}\.example\.com", "(?i)x|y", "(a+)+"])
def test_a_pattern_that_takes_linear_time_is_one(pattern):
    assert ruled({"action": "allow", "arguments": {"a": {"pattern": pattern}}}) == []


ANYTHING = {"action": "allow"}


def given_as(value):
    return {"arguments": {"a": {"equals": value}}}


WHERE = {"arguments": {"owner": {"equals": "us"}}}


@for_each(
    "first, second",
    [
        (ANYTHING, {"action": "deny", "tools": ["delete_*"]}),
        (ANYTHING, ANYTHING | WHERE),
        ({"action": "ask", "tools": ["*"]}, {"action": "deny", "tools": ["a", "b*"]}),
        ({"action": "ask", "tools": ["a*", "b"]}, {"action": "deny", "tools": ["ab*c", "b"]}),
        ({"action": "ask", "read_only": True}, {"action": "allow", "read_only": True, "tools": ["x"]}),
        ({"action": "ask", "destructive": False}, {"action": "allow", "read_only": True}),
        ({"action": "ask", "read_only": False}, {"action": "allow", "destructive": True}),
        (
            ANYTHING | WHERE,
            {"action": "allow", "tools": ["x"], "arguments": {**WHERE["arguments"], "b": {"prefix": "c"}}},
        ),
        ({"action": "deny"} | WHERE, {"action": "allow", "tools": ["x"]} | WHERE),
        ({"action": "ask"} | WHERE, {"action": "allow", "tools": ["x"]} | WHERE),
    ],
)
def test_a_tool_rule_that_can_never_match_is_a_fault(first, second):
    """H5, T3: what was to be denied would be allowed."""
    assert ruled(first, second) == [("servers.x.rules[1]", "can never match: rules[0] matches all that it speaks of")]


@for_each(
    "first, second",
    [
        ({"action": "deny", "tools": ["delete_*"]}, ANYTHING),
        ({"action": "allow", "tools": ["a*"]}, {"action": "deny", "tools": ["*a"]}),
        ({"action": "allow", "read_only": True}, {"action": "deny"}),
        ({"action": "allow", "destructive": True}, {"action": "deny", "read_only": False}),
        (ANYTHING | WHERE, {"action": "deny"}),
        # Where an argument is in doubt, only the stricter of two rules speaks of the call.
        ({"action": "ask"} | WHERE, {"action": "deny"} | WHERE),
        (ANYTHING | WHERE, {"action": "ask"} | WHERE),
        (ANYTHING | WHERE, {"action": "deny"} | WHERE),
        (
            {"action": "allow", "arguments": {"a": {"equals": 1}}},
            {"action": "ask", "arguments": {"a": {"equals": True}}},
        ),
    ],
)
def test_a_tool_rule_that_may_match_is_none(first, second):
    assert ruled(first, second) == []


@pytest.mark.parametrize(
    ("keys", "key", "said"),
    [
        ({"client_id": "me", "client_secret": "env:X"}, "issuer", "missing; a client_secret needs it"),
        ({"client_secret": "env:X", "issuer": "https://a.example"}, "client_secret", "nothing without client_id"),
        ({"issuer": "http://a.example"}, "issuer", "expected https"),
        ({"issuer": "https://["}, "issuer", "expected the address"),
    ],
)
def test_the_secret_of_an_oauth_client_has_one_place_to_go_to(keys, key, said):
    """H1, N5, T5: the server says where its authorization server is, and may lie."""
    found, text = problem(**remote(auth=[{"kind": "oauth", **keys}]))
    assert found == f"servers.x.auth[0].{key}"
    assert said in text


def test_a_rule_that_contradicts_itself_is_a_fault():
    ((_, text),) = ruled({"action": "deny", "read_only": True, "destructive": True})
    assert text == "can never match: what only reads does not destroy"


GLOB = st.text("ab*", min_size=1, max_size=6)


def means(pattern, name):
    """The plain definition, by trying every length for each star."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(means(pattern[1:], name[cut:]) for cut in range(len(name) + 1))
    return name[:1] == pattern[0] and means(pattern[1:], name[1:])


@given(wide=GLOB, narrow=GLOB, name=st.text("abc", max_size=8))
def test_what_is_said_to_be_covered_is_covered(wide, narrow, name):
    """H5: by the definition of the star, tried on names."""
    first, second = (ToolRule(action="allow", tools=(pattern,)) for pattern in (wide, narrow))
    if _covers(first, second):
        assert means(wide, name) or not means(narrow, name)


def test_a_rule_covers_itself():
    condition = Condition(equals={"b": [1]})
    rule = ToolRule(action="deny", tools=("a*",), arguments={"a": condition})
    assert _covers(rule, rule)


@pytest.mark.parametrize("sort", [{"kind": "placeholder", "name": "K", "secret": "env:X"}, {"kind": "sigv4"}])
def test_what_is_no_credential_of_a_server_is_a_fault(home, sort):
    inner = ", ".join(f'{name} = "{value}"' for name, value in sort.items())
    home.user_file.write_text(f'[servers.x]\nurl = "https://a.example"\nauth = [{{ {inner} }}]\n')
    assert "expected one of" in refusal(home)


def test_a_secret_of_a_server_is_shown_by_no_mount(home):
    """T4: programs would read it."""
    shown = home.base / "shown"
    shown.mkdir()
    mount = f"policy.mounts = [{{ source = '{shown}', target = '/data' }}]\n"
    for secret in (
        f"[servers.x]\ncommand = ['x']\nsecret_env.A = 'file:{shown}/key'\n",
        f"[servers.x]\nurl = 'https://x.example'\n[[servers.x.auth]]\nkind = 'bearer'\nsecret = 'file:{shown}/key'\n",
        f"[sampling]\nsecret = 'file:{shown}/key'\nprovider = 'openai'\nurl = 'https://x.example'\nmodel = 'm'\n",
    ):
        home.user_file.write_text(mount + secret)
        assert "policy.mounts[0].source" in refusal(home)
    home.user_file.write_text(f"{mount}[servers.x]\ncommand = ['x']\nenv.DATABASE = 'file:{shown}/data.db'\n")
    loaded(home)


def test_servers_of_a_project_file_count_only_when_it_is_trusted_as_it_is(home):
    """P17, T3: they are programs that are started on this host."""
    home.project_file.write_text("[servers.x]\ncommand = ['one']\n")
    assert "is not trusted" in refusal(home)
    trust(home.project, environ=home.environ)
    assert loaded(home).config.servers["x"].command == ("one",)
    home.project_file.write_text("[servers.x]\ncommand = ['two']\n")
    assert "has changed since it was trusted" in refusal(home)


def test_a_server_is_defined_in_one_file(home):
    """N5: laid over the operator's, a project's URL would get the operator's credential."""
    home.user_file.write_text("[servers.x]\nurl = 'https://one.example'\n")
    home.project_file.write_text("[servers.x]\nurl = 'https://two.example'\n")
    trust(home.project, environ=home.environ)
    assert "servers.x: defined already in" in refusal(home)


def test_servers_and_sampling_wait_for_a_restart_and_are_named(home):
    """N2, T3: hot reload."""
    home.user_file.write_text("[servers.a]\ncommand = ['a']\n[servers.gone]\ncommand = ['g']\n")
    old = loaded(home)
    home.user_file.write_text(
        "[servers.a]\ncommand = ['b']\nactive = false\nenv = { A = 'b' }\n[servers.new]\ncommand = ['n']\n"
        "[sampling]\nenabled = true\n[approvals]\ntimeout_seconds = 1\n[api.one]\nhosts = ['one.example.com']\n"
    )
    new = reload(old, None, cwd=home.project, environ=home.environ)
    assert set(new.postponed) == {
        *("servers.a", "servers.gone", "servers.new", "sampling.enabled", "approvals.timeout_seconds")
    }
    assert new.loaded.config.servers == old.config.servers
    assert list(new.loaded.config.api) == ["one"]


def sampled(**keys):
    return [(spell_key(fault.keys[0]), fault.problem) for fault in sampling_faults({"sampling": keys})]


PROVIDER = {"provider": "openai", "url": "https://api.example.com/v1", "model": "m"}


def test_a_provider_is_described_whole_or_not_at_all():
    """H7, T3"""
    assert sampled() == sampled(enabled=True) == sampled(**PROVIDER) == []
    assert sampled(enabled=True, channel="provider", **PROVIDER) == []
    needed = [(f"sampling.{name}", f"{name} is missing") for name in ("provider", "url", "model")]
    assert [(key, text.split(";")[0]) for key, text in sampled(enabled=True, channel="provider")] == needed
    assert [key for key, _ in sampled(secret="env:X")] == [key for key, _ in needed]
    assert [key for key, _ in sampled(model="m", url=PROVIDER["url"])] == ["sampling.provider"]


def test_the_key_of_a_provider_never_leaves_this_machine_in_clear_text():
    """H7, N5"""
    ((key, text),) = sampled(**PROVIDER | {"url": "http://api.example.com/v1"}, secret="env:X")
    assert key == "sampling.url"
    assert "expected https" in text
    assert sampled(**PROVIDER | {"url": "http://localhost:11434/v1"}, secret="env:X") == []
