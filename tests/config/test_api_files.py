"""The directory ``apis``: one API a file."""

import json
import os
from types import SimpleNamespace

import pytest

from gloveport.config import load, trust
from gloveport.config.api_files.codeforge import PLACES, read_codeforge
from gloveport.errors import ConfigError

HOST = 'hosts = ["api.example.com"]\n'


@pytest.fixture
def own(home):
    """The operator's own directory, with ``apis`` in it, and what is loaded from there."""
    apis = home.user_file.parent / "apis"
    apis.mkdir()

    def found():
        return load(None, cwd=home.project, environ=home.environ)

    def refusal():
        with pytest.raises(ConfigError) as caught:
            found()
        return str(caught.value)

    def codeforge(name, content):
        folder = apis / name
        folder.mkdir(exist_ok=True)
        file = folder / "config.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        file.chmod(0o600)
        return file

    return SimpleNamespace(apis=apis, found=found, refusal=refusal, codeforge=codeforge)


def test_a_file_holds_what_its_table_would(own):
    """N2, T5"""
    (own.apis / "github.toml").write_text(f"# mine\n{HOST}[[rules]]\naction = 'allow'\n")
    loaded = own.found()
    assert loaded.config.api["github"].hosts == ("api.example.com",)
    assert loaded.config.api["github"].rules[0].action == "allow"
    assert loaded.origins["api.github.hosts"] == f"{own.apis}/github.toml:2"
    assert loaded.origins["api.github.rules"] == f"{own.apis}/github.toml:3"
    assert loaded.origins["api.github.active"] == "default"
    assert loaded.files == (own.apis / "github.toml",)


def test_the_way_out_is_the_apis_and_what_holds_for_all(own, home):
    """N2, T5"""
    home.user_file.write_text(f"[egress]\nyolo = true\nredact = ['Jane Doe']\n[api.one]\n{HOST}")
    (own.apis / "two.toml").write_text("hosts = ['two.example.com']")
    way_out = own.found().config.way_out
    assert sorted(way_out.apis) == ["one", "two"]
    assert way_out.yolo
    assert way_out.redact == ("Jane Doe",)


def test_a_fault_in_a_file_has_its_line(own):
    """T3"""
    (own.apis / "github.toml").write_text(f"{HOST}\nactiv = true\n")
    assert f"{own.apis}/github.toml:3: api.github.activ: unknown key; hint: did you mean api.github.active?" in (
        own.refusal()
    )
    (own.apis / "github.toml").write_text("")
    assert f"{own.apis}/github.toml:1: api.github.hosts: missing" in own.refusal()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# mine\n[api.mine2]\n{HOST}", 2),
        (f"[api.other]\n{HOST}", 1),
        (f"{HOST}[[api.mine2.rules]]\naction = 'allow'\n", 2),
        ("api.mine2.hosts = ['api.example.com']\n", 1),
        ("api = 3\n", 1),
    ],
)
def test_a_file_that_repeats_the_name_of_its_table_has_one_fault(own, text, line):
    """T3"""
    (own.apis / "mine2.toml").write_text(text)
    head, only, _ = own.refusal().split("\n")
    assert head == "1 fault in the configuration:"
    assert only == (
        f"{own.apis}/mine2.toml:{line}: api.mine2.api: this file is the table [api.mine2] already; "
        "hint: leave the header [api.mine2] away, and write [[rules]] and [[auth]] below"
    )


def test_a_file_with_a_name_that_no_api_can_have_is_a_fault(own):
    """T3"""
    (own.apis / "Git Hub.toml").write_text(HOST)
    assert 'Git Hub.toml:1: api."Git Hub": expected a name' in own.refusal()
    (own.apis / "Git Hub.toml").unlink()
    (own.apis / os.fsdecode(b"\xff.toml")).write_text(HOST)
    assert "\\udcff.toml can't be the name of an API" in own.refusal()


@pytest.mark.parametrize("name", [".github.toml.swp", ".github.toml", "github.toml~", "README.md", "#github.toml#"])
def test_what_editors_leave_behind_is_passed_over(own, name):
    (own.apis / name).write_text("= broken")
    assert own.found().files == ()


def test_a_name_is_defined_once(own, home):
    """T3: laid over each other, the credentials of the one would go to the hosts of the other."""
    home.user_file.write_text(f"[api.x]\n{HOST}")
    (own.apis / "x.toml").write_text(HOST)
    assert f"{own.apis}/x.toml:1: api.x: defined already in {home.user_file}:1; hint: " in own.refusal()


def test_a_project_file_adds_apis_and_changes_none(own, home):
    """T1: a reviewer of a project's file does not see that its hosts would get the operator's credentials."""
    (own.apis / "x.toml").write_text(f"{HOST}[[auth]]\nkind = 'bearer'\nsecret = 'env:X'\n")
    home.project_file.write_text("[api.y]\nhosts = ['y.example.com']\n")
    trust(home.project, environ=home.environ)
    assert sorted(own.found().config.api) == ["x", "y"]
    home.project_file.write_text("[api.x]\nhosts = ['evil.example.com']\n")
    trust(home.project, environ=home.environ)
    assert f"{home.project_file}:1: api.x: defined already in {own.apis}/x.toml:1" in own.refusal()


def test_a_directory_beside_a_project_file_never_counts(own, home):
    """P17: nobody has reviewed what is in it."""
    home.project_file.write_text("")
    trust(home.project, environ=home.environ)
    (home.project / "apis").mkdir()
    (home.project / "apis/x.toml").write_text(HOST)
    assert own.found().config.api == {}


def test_the_directory_beside_a_named_file_counts_and_the_operators_own_does_not(own, home):
    (own.apis / "mine.toml").write_text(HOST)
    (home.base / "apis").mkdir()
    (home.base / "apis/other.toml").write_text(HOST)
    (home.base / "named.toml").write_text("")
    loaded = load(home.base / "named.toml", cwd=home.project, environ=home.environ)
    assert list(loaded.config.api) == ["other"]


def test_a_directory_or_file_that_others_may_write_is_refused(own):
    """T3"""
    own.apis.chmod(0o777)
    assert f"{own.apis} may be written by others" in own.refusal()
    own.apis.chmod(0o755)
    (own.apis / "x.toml").write_text(HOST)
    (own.apis / "x.toml").chmod(0o666)
    assert "x.toml may be written by others" in own.refusal()


def test_a_directory_that_is_none_is_refused(own):
    """T3"""
    own.apis.rmdir()
    own.apis.write_text("")
    assert f"{own.apis} can't be read: Not a directory" in own.refusal()
    own.apis.unlink()
    own.apis.symlink_to("gone")
    assert "is a symbolic link that leads nowhere" in own.refusal()


FULL = {
    "description": "Issues",
    "domains": ["api.example.com", "raw.example.com"],
    "credentials": {"EXAMPLE_TOKEN": "sk-live-1", "OTHER_KEY": "sk-live-2"},
    "reference": "https://docs.example.com",
    "restricted_methods": ["post", "DELETE"],
    "active": True,
}


def test_codeforges_layout_is_read(own):
    """N2, N5: its credentials become placeholders in named places, and stay where they are."""
    file = own.codeforge("github", FULL)
    (own.apis / "github/types.d.ts").write_text("type Issue = { id: number };\n")
    loaded = own.found()
    api = loaded.config.api["github"]
    assert (api.description, api.reference, api.active) == ("Issues", "https://docs.example.com", True)
    assert api.hosts == ("api.example.com", "raw.example.com")
    assert [(auth.kind, auth.name, auth.secret, auth.places) for auth in api.auth] == [
        ("placeholder", "EXAMPLE_TOKEN", f"json:{file}#/credentials/EXAMPLE_TOKEN", PLACES),
        ("placeholder", "OTHER_KEY", f"json:{file}#/credentials/OTHER_KEY", PLACES),
    ]
    assert [(rule.action, rule.methods) for rule in api.rules] == [("deny", ("POST", "DELETE")), ("allow", ())]
    assert api.types == "type Issue = { id: number };\n"
    assert loaded.origins["api.github.hosts"] == str(file)
    assert "sk-live" not in repr(loaded)


def test_codeforges_least_file_allows_everything(own):
    own.codeforge("tiny", {"domains": ["api.example.com"], "reference": None})
    api = own.found().config.api["tiny"]
    assert (api.rules, api.auth, api.active, api.reference) == ((), (), True, None)


def test_codeforges_example_is_passed_over(own):
    own.codeforge("example", "broken")
    assert own.found().config.api == {}


def test_false_alone_deactivates(own):
    """T3: what CodeForge silently takes for true is a fault."""
    own.codeforge("x", {"domains": ["api.example.com"], "active": False})
    assert not own.found().config.api["x"].active
    own.codeforge("x", {"domains": ["api.example.com"], "active": "false"})
    assert 'api.x.active: expected true or false, found "false"' in own.refusal()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", ":1:2: not JSON"),
        ("[]", ": expected an object"),
        ('{"a": 1, "a": 2}', ": not plain JSON: a key twice"),
        ('{"description": "\\ud800"}', ": not plain JSON"),
        ("[" * 100_000, ": not plain JSON"),
        ('{"x": ' + "[" * 50 + "]" * 50 + "}", "nested too deep"),
        ('{"x": ' + "9" * 50 + "}", ": x: more than 64 bits"),
        ({}, ": api.x.domains: missing; expected an array, not empty, each element text"),
        ({"domains": []}, ": api.x.domains: expected an array, not empty"),
        ({"domains": ["a.example.com", 3]}, ": api.x.domains[1]: expected text, found 3"),
        ({"domains": ["*.example.com"]}, ': api.x.domains[0]: expected the name of a host and nothing else, found "*.'),
        ({"domains": ["http://a.example.com"]}, ": api.x.domains[0]: expected the name of a host"),
        ({"domains": ["a.example.com:8443"]}, ": api.x.domains[0]: expected the name of a host"),
        ({"domains": ["a b"]}, ": api.x.domains[0]: expected the name of a host"),
        ({"domain": ["a.example.com"]}, ": api.x.domain: unknown key; hint: did you mean domains?"),
        ({"domains": ["a.example.com"], "restricted_methods": ["no way"]}, ".restricted_methods[0]: expected an HTTP"),
        ({"domains": ["a.example.com"], "reference": 3}, ": api.x.reference: expected text, found 3"),
        ({"domains": ["a.example.com"], "active": None}, ": api.x.active: expected true or false, found null"),
    ],
)
def test_a_fault_in_codeforges_file_names_file_and_key(own, content, expected):
    """T3"""
    file = own.codeforge("x", content)
    text = own.refusal()
    assert str(file) in text
    assert expected in text


@pytest.mark.parametrize(
    "credentials",
    [
        "sk-live-1",
        ["sk-live-1"],
        {"TOKEN": ["sk-live-1"]},
        {"TOKEN": {"value": "sk-live-1"}},
        {"TOKEN": 123454321},
        {"TOKEN": ""},
        {"lower": "sk-live-1"},
        {"TOKEN": "sk-live-1\ud800"},
    ],
)
def test_no_message_shows_a_credential(own, credentials):
    """T4: not in errors."""
    own.codeforge("x", {"domains": ["a.example.com"], "credentials": credentials})
    text = own.refusal()
    assert "credentials" in text or "not plain JSON" in text
    assert "sk-live" not in text
    assert "12345" not in text


def test_no_message_shows_a_password_in_a_url(own):
    """T4"""
    own.codeforge("x", {"domains": ["https://user:sk-live-1@a.example.com"]})
    (own.apis / "y.toml").write_text("hosts = ['https://user:sk-live-1@a.example.com']")
    text = own.refusal()
    assert text.count("with a user") == 2
    assert "sk-live" not in text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_of_credentials_that_others_may_read_is_refused(own, mode):
    """T4, T3"""
    file = own.codeforge("x", FULL)
    file.chmod(mode)
    text = own.refusal()
    assert f"{file} holds secrets and may be read by others than its owner (mode {mode:04o})" in text
    assert f"run: chmod go= {file}" in text


def test_rules_across_apis_hold_for_codeforges_too(own):
    """N5"""
    file = own.codeforge("x", {"domains": ["api.example.com"]})
    (own.apis / "a.toml").write_text(HOST)
    assert f"{file}: api.x.hosts[0]: expected a place that nobody claims" in own.refusal()
    own.codeforge("x", {"domains": ["x.example.com"], "credentials": {"LD_PRELOAD": "sk-live-1"}})
    assert f"{file}: api.x.auth[0].name: expected a name that nothing in a sandbox obeys" in own.refusal()


def test_a_mount_never_shows_a_codeforge_file(own, home):
    """T4"""
    own.codeforge("x", FULL)
    home.user_file.write_text(f"policy.mounts = [{{ source = '{own.apis}/x', target = '/data' }}]\n")
    assert "policy.mounts[0].source: expected nothing of Gloveport's own" in own.refusal()


def test_codeforges_files_are_no_links_and_in_a_directory_of_the_operators(tmp_path):
    """P17: a link in the place of the types would show any file of the operator's to programs."""
    own, private = tmp_path / "apis" / "gh", tmp_path / "private"
    own.mkdir(parents=True)
    private.write_text("not for programs")
    (own / "config.json").write_text('{"domains": ["api.github.com"]}')
    (own / "config.json").chmod(0o600)
    (own / "types.d.ts").symlink_to(private)
    with pytest.raises(ConfigError, match="symbolic link"):
        read_codeforge(own)
    (own / "types.d.ts").unlink()
    assert read_codeforge(own) is not None
    own.chmod(0o777)
    with pytest.raises(ConfigError, match="written by others"):
        read_codeforge(own)
