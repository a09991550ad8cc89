"""The commands ``tools`` and ``llm`` of shell programs (H2, H3, H4, H7), against a host on a real socket."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from tests.guest.conftest import TOLD

pytestmark = pytest.mark.anyio

SHELL = Path(__file__).parents[2] / "src/gloveport/guest/shell"
USAGE = 2
TAKES = "It takes: title (string, required)."


@pytest.fixture
def run(tmp_path, host):
    """Run one shell program; return its exit code, standard output and standard error."""

    async def run_one(source, **env):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{SHELL}"
        env = {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "GLOVEPORT_HUB": host.address, **env}
        with anyio.fail_after(20):
            done = await anyio.run_process(
                ["/bin/bash", "--norc", "-c", source],
                env={name: value for name, value in env.items() if value},
                cwd=tmp_path,
                check=False,
            )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run_one


async def test_servers_and_tools_are_listed(run):
    """H4: one a line."""
    assert await run("tools") == (0, "github    ready  Issues and code\nmy-files  ready\n", "")
    listed = "create-issue  Create an issue.\njson\n"
    assert await run("tools github; tools github --help") == (0, listed * 2, "")
    hint = "gitlab: There is no server 'gitlab'.\nhint: There are: github.\n"
    assert await run("tools gitlab") == (1, "", hint)


async def test_help_shows_what_a_tool_takes(run):
    """H2."""
    code, out, _ = await run("tools github create_issue --help")
    assert code == 0
    assert out == (
        "usage: tools github create-issue [--NAME VALUE]…\n\n"
        "Create an issue. In any repository.\n\n"
        "  --body     string\n"
        "  --title    string   required\n"
        "  --labels   array\n"
        "  --count    integer\n"
        "  --dry_run  boolean\n"
        "  --x-trace  string\n\n"
        "def create_issue(*, title: str, body: str | None = ...) -> dict: ...\n"
        '    """Create an issue."""\n'
    )


CALLS = {
    "--title 5 --body true --count 3": {"title": "5", "body": "true", "count": 3},
    "--title=a=b --labels '[\"a\"]' --dry-run": {"title": "a=b", "labels": ["a"], "dry_run": True},
    "--dry_run --title x": {"dry_run": True, "title": "x"},
    "--no-dry-run --title ''": {"dry_run": False, "title": ""},
    "--dry-run=false --title --body": {"dry_run": False, "title": "--body"},
    "--x-trace ä --x_trace=ö": {"x-trace": "ö"},
    '--json \'{"title": "x", "other": 1}\' --count 2': {"title": "x", "other": 1, "count": 2},
    "--json - <<< '{\"title\": [1]}'": {"title": [1]},
    "": {},
}


async def test_options_become_arguments_by_the_schema(run):
    """H2: a string stays text, everything else is JSON."""
    code, out, err = await run("\n".join(f"tools github create_issue {options}" for options in CALLS))
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == list(CALLS.values())


async def test_a_schema_of_no_shape_is_no_obstacle(run, host, monkeypatch):
    async def describe(_asked):
        odd = {"type": 5, "anyOf": None, "enum": 3, "description": [7]}
        return {**TOLD["full"], "input_schema": {"properties": {"a": odd, "b": None}, "required": 5}}

    monkeypatch.setattr(host, "describe", describe)
    assert await run("tools github create_issue --a 1 --b '[' --no-a x") == (
        USAGE,
        "",
        "tools: there is no parameter --no-a; there are: --a, --b\nhint: try: tools github create_issue --help\n",
    )
    code, out, err = await run("tools github create_issue --a 1 --b '['; tools github create_issue --help")
    assert (code, out.splitlines()[0], "[7]" in out, err) == (0, '{"a":1,"b":"["}', True, "")


async def test_without_a_schema_any_option_is_taken(run):
    code, out, _ = await run("tools github text --text 'a b'; tools github text --text 7; tools github json")
    assert (code, out) == (0, 'a b\n7\n[1,{"a":null}]\n')


WRONG = {
    "tools github create_issue --titel x": "there is no parameter --titel; there are: --body, --title",
    "tools github create_issue x": "x belongs to no option\nhint: try: tools github create_issue --help",
    "tools github create_issue --title": "--title lacks a value",
    "tools github create_issue --count many": "--count takes integer, as JSON; 'many' is none",
    "tools github create_issue --no-title": "there is no parameter --no-title",
    "tools github create_issue --json '[]'": "--json takes an object of JSON",
    "tools github create_issue --json '{'": "--json takes an object of JSON",
    "tools --nonsense": "not understood: --nonsense\nusage: tools",
    "tools --search": "not understood",
    "tools --blocks github": "not understood",
    "llm": "there is no prompt",
    "llm --colour red x": "there is no parameter --colour; there are: --system, --model, --max_tokens",
}


async def test_wrong_usage_exits_with_2_and_says_what_is_right(run, host):
    """H6: before anything is called."""
    for line, message in WRONG.items():
        code, out, err = await run(line)
        assert (code, out) == (USAGE, ""), line
        assert message in err
        assert "Traceback" not in err
    assert [asked for asked in host.asked if asked["op"] in ("call", "sample")] == []


async def test_a_tool_that_fails_exits_with_1_and_its_message_is_on_standard_error(run):
    """H3: never an answer like any other."""
    fail = f"github/fail: the repository is archived\nhint: {TAKES}\n"
    assert await run("tools github fail") == (1, "", fail)
    code, _, err = await run("tools github create_isue && echo not reached")
    assert (code, err) == (1, "github/create_isue: There is no tool 'create_isue'.\nhint: There are: create_issue.\n")
    code, _, err = await run("tools github text $'--text=\\xff'")
    assert (code, err.splitlines()[0]) == (
        1,
        "tools: argument text has half of a surrogate pair, and arguments must be JSON",
    )


async def test_where_there_are_no_tools_or_no_host_the_commands_say_so(run):
    none = "tools: there are none\nhint: This sandbox has been granted no servers and no skills.\n"
    assert await run("tools", GLOVEPORT_HUB="") == (1, "", none)
    assert (await run("tools --help", GLOVEPORT_HUB=""))[0] == 0
    code, _, err = await run("tools github text", GLOVEPORT_HUB="127.0.0.1:1")
    assert (code, err.startswith("github/text: the host does not answer")) == (1, True)


async def test_every_block_is_reachable(run):
    """H3: no base64 where nobody asked for it."""
    code, out, _ = await run("tools github blocks; tools --blocks github blocks")
    *shown, wire = out.splitlines()
    assert code == 0
    assert shown == [
        *("two files", "<image, image/png, 9 bytes>", "ä", "<resource, file:///b, 9 bytes>"),
        "<resource_link, file:///c>",
    ]
    assert [block["type"] for block in json.loads(wire)] == ["text", "image", "resource", "resource", "resource_link"]


async def test_tools_are_found_by_words(run, host):
    """H4."""
    code, out, err = await run('tools --search "make a" ticket')
    assert (code, out) == (0, "github create-issue  Create an issue.\nand 6 more\n")
    assert err == "tools: slow could not be asked: starting\n"
    assert host.asked == [{"op": "search", "query": "make a ticket", "limit": 20, "detail": "names"}]


async def test_the_declarations_are_written_as_files(run):
    """H4: to be read with ls, grep and cat."""
    code, out, _ = await run("tools --export api/v1 && cat api/v1/*")
    assert (code, out) == (0, "api/v1/github.pyi\napi/v1/github.d.ts\ntypescript\npython\n")


async def test_a_language_model_is_asked(run, host):
    """H7."""
    lines = "llm hello; llm --system s --model m --max-tokens 5 'a b'; echo piped | llm -; llm --max-tokens 6000 x"
    code, out, err = await run(lines)
    assert (code, out) == (1, "||hello\nm|s|a b\n||piped\n\n")
    assert err == "llm: A run may spend 5000 tokens.\nhint: Ask for less.\n"
    assert [asked["max_tokens"] for asked in host.asked] == [1000, 5, 1000, 6000]


async def test_who_reads_no_further_ends_the_command_quietly(run, host, monkeypatch):
    async def much(_arguments):
        return {"kind": "text", "value": "x" * (1 << 20), "blocks": []}

    monkeypatch.setattr(host, "tool_much", much, raising=False)
    assert await run("tools github much | head -c 3") == (0, "xxx", "")
