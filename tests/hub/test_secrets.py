"""Secrets of servers stay with their servers, whatever those say: nothing of them reaches a program, an agent, the log,
the audit log, an error, or a file of ours. H1, T4.
"""

import base64
import json
import logging
import textwrap
import urllib.parse

import anyio
import pytest
from mcp import Client
from tests.far_side.mcp_http import raw, reply, result, usual
from tests.hub.world import ALLOW, offers, opened, tool

from gloveport.config import Config
from gloveport.server.protocol import make_server

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t/alpha+VALUE=4711"
FORMS = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 behind a user": base64.b64encode(b"user:" + SECRET.encode()).decode()[8:-4],
    "hex": SECRET.encode().hex(),
    "url": urllib.parse.quote(SECRET, safe=""),
    "json": SECRET.replace("/", "\\/"),
    "reversed": SECRET[::-1],
}
WAYS = ("text", "error", "structured", "json", "resource", "broken", "refusal", "end")

CODE = """
import contextlib, subprocess

said = []
for how in WAYS:
    try:
        answer = tools.far.tell.blocks(how=how)
        said.append([how, answer.value, [block.wire for block in answer.blocks]])
    except ToolError as error:
        said.append([how, error.code, error.text, error.hint, str(error)])
for call in (
    lambda: tools.far.tell.describe(),
    lambda: tools.far.tell(how=5),
    lambda: tools.far.nothing(),
    lambda: search_tools("", 50, "full"),
    lambda: search_tools("", 50, "full").missing,
    lambda: [repr(tools), repr(tools.far), dir(tools.far), tools.far.tell.__doc__],
    lambda: subprocess.run(["tools", "--export", "d"], capture_output=True, text=True).stdout,
    lambda: [open("d/far.pyi").read(), open("d/far.d.ts").read()],
    lambda: tools.refusing.plain(),
    lambda: tools.saying.plain(),
    lambda: search_tools("", 50, "full").missing,
):
    try:
        said.append(call())
    except ToolError as error:
        said.append([error.code, error.text, error.hint])
print(said)
tools.far.tell(how="refusal")
""".replace("WAYS", repr(WAYS))


def leaks(text: str) -> list[str]:
    return [name for name, form in FORMS.items() if form in text]


async def test_nothing_of_a_secret_comes_back_in_whatever_form_and_place(tmp_path, caplog):
    """T4: servers repeat what they were given as text, data, errors, descriptions, on standard error, in a refusal.

    T5: servers.NAME.secret_env, auth.
    """
    caplog.set_level(logging.DEBUG, logger="gloveport")
    told = tool("tell", "Says TOKEN.", {"how": {"type": "string", "default": "TOKEN", "enum": [*WAYS, "TOKEN"]}})

    async def conduct(asked):
        """Repeat the credential: in the description of a tool, in a result, or in place of a list of tools."""
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if asked.what == "tools/list" and asked.path == "/refusing":
            error = {"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": 1, "message": f"no: {token}"}}
            await asked.send(reply(json.dumps(error).encode()))
        elif asked.what == "tools/call":
            await asked.send(
                reply(result(asked, {"content": [{"type": "text", "text": f"{token} {token.encode().hex()}"}]}))
            )
        else:
            await asked.send(usual(asked, ({"name": "say", "description": token, "inputSchema": {"type": "object"}},)))

    async with raw(conduct) as far:
        auth = {"auth": [{"kind": "bearer", "secret": "env:MINE"}], "transport": "http", "rules": ALLOW}
        servers = {
            "far": offers(tmp_path / "t.json", told, secret_env={"TOKEN": "env:MINE"}),
            "refusing": auth | {"url": far.url.replace("/mcp", "/refusing")},
            "saying": auth | {"url": far.url},
        }
        async with opened(tmp_path / "state", servers, {"MINE": SECRET}) as world:
            run = await world.run("python", CODE)
            async with Client(make_server(world.engine, Config(), {}, "stdio")) as client:
                answers = [
                    (await client.call_tool("search_tools", {"detail": detail})).model_dump_json()
                    for detail in ("names", "signatures", "full")
                ]
            written = world.written().decode(errors="replace")
    assert {asked.headers.get("authorization") for asked in far.asked} == {f"Bearer {SECRET}"}, "they have it"
    assert run.error.type == "ToolError", run.error
    assert run.stdout.text.count("[secret servers.far.TOKEN]") > 20
    for place in (run.model_dump_json(), run.stdout.text, *answers, caplog.text, written):
        assert leaks(place) == []
    assert "[secret servers.far.TOKEN]" in caplog.text, "what it says on its standard error is logged"


async def test_nothing_of_a_secret_is_in_the_output_of_a_run_without_a_result(tmp_path):
    """T4: while it goes on, when it is cancelled, and in the pages of what is left over."""
    half = len(SECRET) // 2
    code = f"""
        import sys, time
        try:
            tools.far.tell(how="refusal")
        except ToolError:
            pass
        print(({SECRET[:half]!r} + {SECRET[half:]!r} + " ") * 5_000, flush=True)
        print({SECRET[:half]!r} + "\\x1b[0m" + {SECRET[half:]!r}, "begun", file=sys.stderr, flush=True)
        time.sleep(60)
        """
    told = tool("tell", "Says TOKEN.", {"how": {"type": "string"}})
    servers = {"far": offers(tmp_path / "t.json", told, secret_env={"TOKEN": "env:MINE"})}
    async with (
        opened(tmp_path / "state", servers, {"MINE": SECRET}) as world,
        Client(make_server(world.engine, Config(), {}, "stdio")) as client,
    ):
        program = {"language": "python", "code": textwrap.dedent(code), "wait_seconds": 0}
        answer = await client.call_tool("execute_code", program)
        run_id = {"run_id": answer.structured_content["run_id"]}
        with anyio.fail_after(30):
            while "begun" not in answer.content[0].text:
                answer = await client.call_tool("wait_run", {**run_id, "wait_seconds": 0.05})
        over = await client.call_tool("cancel_run", run_id)
        reference = {"output_ref": over.structured_content["stdout"]["handle"]}
        page = await client.call_tool("read_output", reference)
    for one in (answer, over, page):
        assert "[secret servers.far.TOKEN]" in one.content[0].text
        assert leaks(one.model_dump_json()) == []


async def test_a_variable_of_several_lines_arrives_and_is_scrubbed_as_a_whole(tmp_path):
    """T4: a key in PEM, told as text, as data, and in a refusal."""
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\nBCIEIH0x\n-----END PRIVATE KEY-----"
    told = tool("tell", "Says it.", {"how": {"type": "string"}})
    servers = {"far": offers(tmp_path / "t.json", told, secret_env={"TOKEN": f"file:{tmp_path / 'key'}"})}
    (tmp_path / "key").write_text(f"{key}\n")
    (tmp_path / "key").chmod(0o600)
    code = """
        [tools.far.tell(how="text"), tools.far.tell(how="structured")]
        """
    async with opened(tmp_path / "state", servers) as world:
        run = await world.run("python", code)
    assert run.error is None, run.error
    shown = run.model_dump_json()
    assert "[secret servers.far.TOKEN]" in shown
    assert "MC4CAQ" not in shown


async def test_how_long_a_server_gives_its_reasons_is_not_what_an_agent_has_to_read(tmp_path):
    """T4: the program has all of it; of each call the answer tells the beginning."""
    server = offers(tmp_path / "t.json", tool("long", properties={"size": {"type": "integer"}}))
    code = """
        lengths = []
        for _ in range(20):
            try:
                tools.far.long(size=100_000)
            except ToolError as error:
                lengths.append(len(error.text))
        lengths
        """
    async with opened(tmp_path / "state", {"far": server}) as world:
        run = await world.run("python", code)
        assert run.value == [100_000] * 20
        assert len(run.model_dump_json()) < 30_000


async def test_a_secret_that_can_not_be_had_is_the_owners_business(tmp_path):
    """T4: the program hears whom to ask, and no reference."""
    server = offers(tmp_path / "t.json", "one", secret_env={"TOKEN": "env:NOT_THERE_4711"})
    async with opened(tmp_path / "state", {"far": server}) as world:
        run = await world.run("python", "tools.far.one()")
    assert "The secret for the variable TOKEN of the server 'far' can't be had" in run.error.message
    assert "NOT_THERE_4711" not in run.model_dump_json()


async def test_a_tool_that_repeats_what_it_is_sent_tells_no_program_which_of_its_guesses_is_a_secret(tmp_path):
    """P19: a server that has no secret echoes the program's own text; from one that has, all is scrubbed. A refusal
    quotes the program as it is.
    """

    async def conduct(asked):
        if asked.what == "tools/call":
            text = json.dumps(asked.message["params"].get("arguments"))
            await asked.send(reply(result(asked, {"content": [{"type": "text", "text": text}]})))
        else:
            echo = {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            await asked.send(usual(asked, (echo,)))

    code = """
        GUESSES = [f"guess-number-{number}" for number in range(500)] + [KEY]
        def same(call):
            try:
                return call()["guesses"] == GUESSES
            except ToolError as error:
                return KEY in error.text
        seen = [
            same(lambda: tools.having.echo(guesses=GUESSES)),
            same(lambda: tools.lacking.echo(guesses=GUESSES)),
            same(lambda: tools.lacking[KEY]()),
        ]
        seen
    """
    async with raw(conduct) as far:
        plain = {"url": far.url, "transport": "http", "rules": ALLOW}
        having = plain | {"auth": [{"kind": "bearer", "secret": "env:MINE"}]}
        async with opened(tmp_path / "state", {"having": having, "lacking": plain}, {"MINE": SECRET}) as world:
            run = await world.run("python", f"KEY = {SECRET!r}\n" + textwrap.dedent(code))
            written = world.written().decode(errors="replace")
    assert run.value == [False, True, True], run
    assert leaks(run.model_dump_json()) == []
    assert leaks(written) == []
