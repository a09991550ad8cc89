"""``gloveport serve`` over stdio: a real process, real pipes, a real client."""

import contextlib
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from tests import forked, remembered
from tests.e2e.conftest import INITIALIZE, Stdio

CLIENT = {"name": "mcp", "version": "1"}

NOISE = """
import os, subprocess, sys
import anyio
from gloveport.config import Config
from gloveport.bootstrap import app
from gloveport.server.protocol import make_server
from gloveport.server.startup import Startup
from gloveport.server.transports.stdio import serve_stdio

async def main():
    async with app.assemble(Config(), os.environ) as engine:
        server = make_server(engine, Config(), os.environ, "stdio")

        @server.tool()
        def noise() -> str:
            print("noise of a handler", flush=True)
            os.write(1, b"noise of a library\\n")
            subprocess.run(["echo", "noise of a child"], check=True)
            return sys.stdin.read() + os.read(0, 10).decode()

        startup = Startup()
        startup.settle(lambda: server)
        await serve_stdio(startup)

anyio.run(main)
"""


@pytest.fixture(scope="module")
def shared(gloveport, nothing_waits, tmp_path_factory):
    """A server for all who leave it as it was, and have read all that it has said; with a state of its own."""
    state = tmp_path_factory.mktemp("shared") / "state"
    with remembered.lent(state):
        environ = {"GLOVEPORT_STATE": str(state), "GLOVEPORT_CONFIG": nothing_waits}
        server = Stdio(partial(gloveport.start, "serve"), environ)
        server.shake_hands()
        yield server
        server.process.kill()
        server.process.communicate()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_of_either_era_runs_programs(mode, environ):
    """O4. In one of them by the command that is installed: it is all the same to these."""
    command, *arguments = forked.command("gloveport", "serve")
    if mode == "auto":
        command, arguments = str(Path(sys.executable).with_name("gloveport")), ["serve"]
    target = StdioServerParameters(command=command, args=arguments, env=environ)
    async with Client(target, mode=mode) as client:
        for number in range(2):
            code = f"6 * {number}"
            result = await client.call_tool("execute_code", {"language": "python", "code": code})
            assert result.structured_content["value"] == 6 * number


def test_a_start_and_a_stop_are_written_down(stdio, records):
    """A1."""
    server = stdio()
    server.shake_hands()
    server.execute(1, "shell", ":")  # of a client that goes at once, it is not known whether a server has started
    server.answer(1)
    assert server.end() == (0, "", "")
    start, *_, stop = records()
    assert (start.kind, stop.kind) == ("server.start", "server.stop")
    assert start.fields == stop.fields == {"version": "0.1.0", "transport": "stdio", "pid": server.process.pid}


def below(pid):
    """All descendants of a process, each as its numbers in the pid namespaces that it is in, its own the last."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has gone just now
            status = Path(f"/proc/{child}/status").read_text()
            yield tuple(map(int, status.partition("NSpid:")[2].splitlines()[0].split()))
            yield from below(child)


def test_a_server_that_nobody_has_asked_has_few_processes_and_runs_programs(stdio, tmp_path, eventually):
    """With the default configuration. Clients look at all that is below a server: 150 processes took them seconds."""
    config = tmp_path / "empty.toml"
    config.touch(mode=0o600)
    server = stdio("--config", str(config))
    server.shake_hands()
    pid, forked, built, sessions = server.process.pid, 4, 4, 1

    def is_at_rest():
        found = list(below(pid))
        # Of sandboxes that wait, sessions among them, and all.
        first = [len(numbers) for numbers in found if numbers[-1] == 1]
        are_there = (first.count(3), first.count(2)) == (forked, built)
        return are_there and len(found) <= 2 + 4 * built + 2 * forked + sessions

    eventually(is_at_rest)
    for number in range(1, 4):
        server.execute(number, "python", f"6 * {number}")
        assert server.answer(number)["result"]["structuredContent"]["value"] == 6 * number


def test_where_a_layer_is_missing_every_call_is_answered_with_what_repairs_it(stdio, no_bubblewrap):
    """T3: a client shows its owner an answer, and of a server that has ended no more than an exit code."""
    server = stdio("--config", str(no_bubblewrap))
    server.shake_hands()
    server.send("tools/list", {}, 1)
    assert "execute_code" in [tool["name"] for tool in server.answer(1)["result"]["tools"]]
    for number in (2, 3):
        server.execute(number, "python", "print(1)")
        result = server.answer(number)["result"]
        assert result["isError"]
        assert "/nonexistent/bwrap" in result["content"][0]["text"]
        assert "hint: " in result["content"][0]["text"]
    server.send("resources/read", {"uri": "output://run-1/stdout"}, 4)
    assert "/nonexistent/bwrap" in server.answer(4)["error"]["message"]
    code, stdout, stderr = server.end()
    assert (code, stdout) == (0, "")
    assert "/nonexistent/bwrap" in stderr
    assert "Traceback" not in stderr


def test_a_wrong_configuration_is_refused_at_once(stdio, tmp_path):
    """O2: nobody is greeted by a server that does not know what it may do."""
    config = tmp_path / "wrong.toml"
    config.write_text("[sandbox]\nbubblewarp = 1\n")
    config.chmod(0o600)
    server = stdio("--config", str(config))
    code, stdout, stderr = server.end()
    assert (code, stdout) == (2, "")
    assert "bubblewarp" in stderr


def test_how_a_session_begins_is_answered_as_the_sdk_would(stdio, gloveport, environ):
    """O4: which answers where it was loaded before, by a message that nobody knows. With a skill, and without any."""
    new = gloveport.start("skills", "new", "hello", "-d", "x", env={**os.environ, **environ})
    assert new.wait() == 0
    asked = [("ping", {}), ("prompts/list", {}), ("resources/list", {}), ("resources/templates/list", {})]
    asked += [("tools/list", {}), ("tools/list", {"_meta": {"progressToken": 1}})]

    def begin(name, version, toolsets, first):
        server = stdio("--toolsets", toolsets)
        if first:
            server.send("nonsense", {}, "first")
            assert server.answer("first")["error"]
        server.send("initialize", {**INITIALIZE, "protocolVersion": version, "clientInfo": {**CLIENT, "name": name}}, 0)
        answers = [server.answer(0)["result"]]
        server.send("notifications/initialized", {})
        for number, (method, params) in enumerate(asked, 1):
            server.send(method, params, number)
            answers.append(server.answer(number)["result"])
        return answers

    for case in (("mcp", "2025-06-18", "code,skills"), ("agent", "2025-11-25", "code")):
        answers = begin(*case, first=False)
        assert answers == begin(*case, first=True), case
        assert ("skill://hello/SKILL.md" in json.dumps(answers)) == ("run_skill" in json.dumps(answers))
        assert ("skill" in json.dumps(answers)) == ("skills" in case[2])


def test_a_skill_runs_without_the_sdk_as_with_it(stdio):
    """S1, O4: a name of ours in ``_meta`` has the SDK answer."""
    server = stdio()
    server.shake_hands()
    code = "MONTH = 11  # parameter\nMONTH * 2"
    skill = {"name": "twice", "description": "x", "code": code, "language": "python"}
    server.send("tools/call", {"name": "save_skill", "arguments": skill}, 1)
    assert not server.answer(1)["result"]["isError"]
    for arguments, said in (({"month": 21}, "42"), ({"year": 1}, "invalid_arguments")):
        answers = []
        for number, meta in ((2, {}), (3, {"gloveport/usual": True})):
            call = {"name": "run_skill", "arguments": {"name": "twice", "arguments": arguments}, "_meta": meta}
            server.send("tools/call", call, number)
            result = server.answer(number)["result"]
            lines = result["content"][0]["text"].splitlines()
            answers.append(
                (result["isError"], lines[1:] if said == "42" else lines)
            )  # the first tells the time it took
        assert answers[0] == answers[1]
        assert (answers[0][0], said in str(answers[0])) == (said != "42", True)


def test_a_session_without_a_handshake_begins_as_the_sdk_would_begin_it(stdio):
    """O4."""
    meta = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}
    told = {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}
    answers = []
    for first in (False, True):
        server = stdio()
        if first:
            server.send("nonsense", {"_meta": told}, "first")
            assert server.answer("first")["error"]
        server.send("server/discover", {"_meta": told}, 1)
        answers.append(server.answer(1)["result"])
    assert answers[0] == answers[1]


def test_a_session_goes_on_with_the_sdk_where_it_began_without(stdio):
    """O4: what was said before is known to it, and answered once."""
    server = stdio()
    server.shake_hands()
    server.execute(1, "python", "open('/out/a.txt', 'w').write('left')")
    uri = server.answer(1)["result"]["structuredContent"]["artifacts"]["files"][0]["uri"]
    server.send("resources/list", {}, 2)
    assert [one["uri"] for one in json.loads(server.process.stdout.readline())["result"]["resources"]] == [uri]
    server.send("ping", {}, 0)
    assert json.loads(server.process.stdout.readline()) == {"jsonrpc": "2.0", "id": 0, "result": {}}


def test_a_cancelled_request_kills_the_run_and_is_not_answered(shared, is_running, eventually):
    """E5."""
    word = f"71{time.time_ns()}"
    shared.execute(1, "shell", f"sleep {word}; true")
    eventually(lambda: is_running(word))
    shared.send("notifications/cancelled", {"requestId": 1})
    eventually(lambda: not is_running(word))
    shared.execute(2, "shell", "echo 2")
    assert json.loads(shared.process.stdout.readline())["id"] == 2


def test_progress_is_sent_to_who_asks_for_it_and_to_nobody_else(shared):
    """E6: the token of the request says that it is asked for."""
    for number, meta, seconds in ((1, {}, 0.3), (2, {"progressToken": "mine"}, 1), (3, {"other": 1}, 0.3)):
        program = {"language": "shell", "code": f"echo line; sleep {seconds}"}
        shared.send("tools/call", {"name": "execute_code", "arguments": program, "_meta": meta}, number)
        came = []
        while (message := json.loads(shared.process.stdout.readline())).get("id") != number:
            came.append((message["method"], message["params"]["progressToken"], message["params"]["message"]))
        assert came == ([("notifications/progress", "mine", "line")] if number == 2 else [])


@pytest.mark.parametrize(
    ("number", "code"), [(None, 0), (signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)], ids=str
)
def test_the_end_of_the_server_is_the_end_of_every_run(stdio, records, is_running, eventually, number, code):
    """E5: end of input and signals alike, soon, and without a word on the terminal."""
    server = stdio()
    server.shake_hands()
    words = [f"7{place}{time.time_ns()}" for place in (2, 3)]
    for place, word in enumerate(words):
        server.execute(place + 1, "shell", f"sleep {word} & sleep {word}; true")
    eventually(lambda: all(map(is_running, words)))
    began = time.monotonic()
    ended, _, stderr = server.end(number)
    assert time.monotonic() - began < 10
    assert (ended, stderr) == (code, "")
    assert not any(map(is_running, words))
    kinds = [(record.kind, record.fields.get("status")) for record in records()]
    assert kinds[-3:-1] == [("execute.ended", "cancelled")] * 2
    assert kinds[-1] == ("server.stop", None)


def test_after_the_end_of_input_nothing_is_answered(stdio, is_running, eventually):
    """E5: the client is gone."""
    server = stdio()
    server.shake_hands()
    word = f"75{time.time_ns()}"
    server.execute(1, "shell", f"echo begun; sleep {word}; true")
    eventually(lambda: is_running(word))
    assert server.end() == (0, "", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=str)
def test_a_signal_ends_a_server_in_order_that_does_not_serve_yet(stdio, eventually, number, code):
    """E5: from the first process on that it has started."""
    server = stdio()
    started = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    eventually(started.read_text)
    assert server.end(number) == (code, "", "")


def test_a_killed_server_leaves_no_process_behind(stdio, is_running, eventually):
    """E5: nothing asks the server; the kernel does it."""
    server = stdio()
    server.shake_hands()
    word = f"74{time.time_ns()}"
    server.execute(1, "shell", f"sleep {word} & sleep {word}; true")
    eventually(lambda: is_running(word))
    server.process.kill()
    eventually(lambda: not is_running(word))


def test_nothing_but_the_protocol_reaches_standard_output(stdio, tmp_path):
    """A4: neither handlers nor their children can write there, or read what the client sends."""
    script = tmp_path / "noise.py"
    script.write_text(NOISE)
    server = stdio(command=forked.command(script))
    server.shake_hands()
    server.send("tools/call", {"name": "noise", "arguments": {}}, 1)
    answer = json.loads(server.process.stdout.readline())
    assert answer["id"] == 1
    assert answer["result"]["content"][0]["text"] == ""
    _, stdout, stderr = server.end()
    assert stdout == ""
    assert {"noise of a handler", "noise of a library", "noise of a child"} <= set(stderr.splitlines())


def test_what_is_no_json_or_no_unicode_does_not_end_the_server(shared):
    shared.process.stdin.write("no json\n[1]\n{}\n")
    shared.execute(1, "python", "'\ud800'")
    shared.execute(2, "python", "chr(0xd800)")
    shared.execute(3, "python", "print(chr(0xd800)); raise ValueError(chr(0xd800))")
    shared.execute(4, "shell", "echo still here")
    answers = {}
    while not {1, 2, 3, 4} <= answers.keys():
        message = json.loads(shared.process.stdout.readline())
        answers[message.get("id")] = message
    assert "still here" in answers[4]["result"]["content"][0]["text"]


NO_MESSAGES = {
    "no json": (None, -32700),
    '{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": ' + "[" * 10_000: (None, -32700),
    "[1]": (None, -32600),
    '{"id": 7}': (7, -32600),
    '{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "\\ud83d"}}': ("a", -32600),
    '{"jsonrpc": "2.0", "id": true, "method": 7}': (None, -32600),
    '{"jsonrpc": "2.0", "id": 7.0, "method": "ping"}': (None, -32600),
    '{"jsonrpc": "2.0", "id": null, "method": "tools/list"}': (None, -32600),
    '{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {}, "x": "' + "x" * (17 << 20) + '"}': (None, -32600),
    '{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": [' + "[]," * 5_000_000 + "1]}}": (None, -32600),
}


def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(shared):
    """P2: nobody waits for ever, and no line takes more memory than a message may."""
    for line, (asked, code) in NO_MESSAGES.items():
        shared.process.stdin.write(line + "\n")
        shared.process.stdin.flush()
        told = json.loads(shared.process.stdout.readline())
        assert (told["id"], told["error"]["code"]) == (asked, code), line[:100]
        shared.send("ping", {}, 8)
        assert shared.answer(8)["result"] == {}


def test_what_nobody_waits_for_is_not_answered(shared):
    """P2"""
    null = '{"jsonrpc": "2.0", "id": null, "method": "notifications/roots/list_changed"}'
    for line in ('{"jsonrpc": "2.0", "method": 7}', null, '{"jsonrpc": "2.0", "id": 7, "result": "\\ud83d"}'):
        shared.process.stdin.write(line + "\n")
    shared.send("ping", {}, 8)
    assert json.loads(shared.process.stdout.readline())["id"] == 8


def test_a_client_that_reads_late_gets_every_answer_whole(stdio, records, eventually):
    """A4: answers wait in turn; they neither hold up other runs nor run into each other."""
    server = stdio()
    server.shake_hands()
    numbers = range(1, 7)
    for number in numbers:
        server.execute(number, "shell", f"yes {number} | head -c 30000")  # all answers together exceed any pipe
    eventually(lambda: sum(record.kind == "execute.ended" for record in records()) == len(numbers))
    messages = [json.loads(server.process.stdout.readline()) for _ in numbers]
    shown = {message["id"]: message["result"]["structuredContent"]["stdout"]["text"] for message in messages}
    assert shown == {number: f"{number}\n" * 15_000 for number in numbers}
