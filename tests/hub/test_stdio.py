"""A server over its standard streams: what its process gets, and how it ends."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests import forked
from tests.hub.upstreams import HOSTILE, failure, hostile, is_alive, until, using, words

from gloveport.hub.connection.server_process import GRACE_SECONDS
from gloveport.hub.connection.standard_error import StandardError
from gloveport.hub.connection.stdio_connection import _MessageReader
from gloveport.model.hub import NESTED, Server

pytestmark = pytest.mark.anyio


async def test_a_server_gets_of_our_environment_nine_variables_and_what_the_operator_says(tmp_path):
    """H1, T4, T5, P26: env, secret_env, directory. What else is in our environment, it never sees."""
    ours = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TZ": "UTC", "GLOVEPORT_KEY": "ours", "LD_X": "ours"}
    server = hostile("", env={"LOG": "1", "TZ": "Europe/Prague"}, directory="/usr")
    async with using(server, environ=ours, secrets={"TOKEN": "hunter2-hunter2"}) as far:
        seen = words(await far.call("plain", {}))
    assert seen["place"] == "/usr"
    assert seen["environment"] == {
        "PATH": ours["PATH"],
        "HOME": str(tmp_path),
        "TZ": "Europe/Prague",
        "LOG": "1",
        "TOKEN": "hunter2-hunter2",
        NESTED: "1",
    }


async def test_a_server_works_in_the_home_directory_where_nothing_else_is_said(tmp_path):
    """T5: directory."""
    async with using(hostile(""), environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}) as far:
        assert words(await far.call("plain", {}))["place"] == str(tmp_path)


async def test_a_server_has_a_process_group_and_a_session_of_its_own():
    """H1: a signal from our terminal does not reach it, and ours reaches all of it."""
    async with using(hostile("")) as far:
        seen = words(await far.call("plain", {}))
        assert seen["pid"] == seen["group"] == seen["session"] != os.getpid()


async def test_no_secret_stands_on_a_command_line(is_running):
    """T4: every user of the host may read command lines."""
    async with using(hostile(""), secrets={"TOKEN": "hunter2-on-no-command-line"}) as far:
        await far.tools()
        assert not is_running("hunter2-on-no-command-line")


@pytest.mark.parametrize(
    "command", [("no-such-command-anywhere",), ("/no/such/place",), ("./mcp.py",), ("/etc/passwd",)]
)
async def test_a_command_that_is_not_there_is_named(command):
    """H1: in words that say what to do."""
    async with using(Server(command=command)) as far:
        error = await failure(far.tools())
    assert error.code == "server_unavailable"
    assert repr(command[0]) in str(error)
    assert "PATH" in error.hint


async def test_a_command_is_not_looked_for_where_we_happen_to_be(tmp_path, monkeypatch):
    """An empty entry of PATH stands for the current directory."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    async with using(Server(command=("tool",)), environ={"PATH": ":.:relative"}) as far:
        assert (await failure(far.tools())).code == "server_unavailable"


async def test_a_directory_that_is_not_there_is_named():
    """H1."""
    async with using(hostile("", directory="/no/such/directory")) as far:
        error = await failure(far.tools())
    assert error.code == "server_unavailable"
    assert "/no/such/directory" in str(error)


async def test_a_file_that_is_no_program_says_so(tmp_path):
    """The launcher is between us and it; what it says reaches the owner."""
    program = tmp_path / "server"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)
    async with using(Server(command=(str(program),))) as far:
        error = await failure(far.tools())
    assert "Exec format error" in str(error)


async def test_the_end_of_what_a_server_said_tells_why_it_does_not_start():
    """H1, T4: printable, and without secrets."""
    clean = lambda text: text.replace("hunter2-hunter2", "[secret x]")  # noqa: E731
    async with using(hostile("dies at start"), clean=clean) as far:
        error = await failure(far.tools())
        assert far.state == "failed"
        assert far.error == error.args[0]
    assert error.code == "server_unavailable"
    assert "status 7" in str(error)
    assert r"\u001b[31mno licence\u0007 for [secret x]" in str(error)


async def test_a_server_ends_when_its_input_does():
    """H1: closing takes no longer than the server does."""
    async with using(hostile("")) as far:
        await far.tools()
        began = time.monotonic()
        await far.close()
        assert time.monotonic() - began < GRACE_SECONDS
        assert far.state == "idle"


async def test_what_a_server_has_started_ends_with_it():
    """H1, P26: a child that ignores SIGTERM, and whose parent has ended in peace."""
    async with using(hostile("leaves a child")) as far:
        child = words(await far.call("bad", {}))
        assert is_alive(child)
        await far.close()
        await until(lambda: not is_alive(child))


async def test_a_server_that_does_not_want_to_end_is_killed_whatever_is_cancelled():
    """H1: in bounded time, also when the task group is left in a hurry."""
    began = time.monotonic()
    async with using(hostile("does not end")) as far:
        pid = words(await far.call("plain", {}))["pid"]
        with anyio.CancelScope() as scope:
            scope.cancel()
            await far.close()
        far._tasks.cancel_scope.cancel()
    assert not is_alive(pid)
    assert time.monotonic() - began < 20


SERVING = """
import anyio, functools, os, sys
from gloveport.hub.connection import stdio_connection
from gloveport.hub.connection.upstream import Upstream
from gloveport.model.hub import Server

async def ignore(tools):
    pass

async def main():
    server = Server(command=(sys.executable, "-I", "-S", {hostile!r}, "does not end"))
    connect = functools.partial(stdio_connection.connect, "far", server, environ=os.environ, secrets={{}}, clean=str)
    async with anyio.create_task_group() as tasks:
        upstream = Upstream("far", server, (connect,), tasks=tasks, on_tools=ignore)
        print((await upstream.call("plain", {{}})).content[0].text, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_a_server_dies_when_we_are_killed(tmp_path):
    """It ignores the end of its input; the kernel kills it, for its parent is dead."""
    program = tmp_path / "serving.py"
    program.write_text(SERVING.format(hostile=HOSTILE))
    with forked.shared().start_script(program, stdout=subprocess.PIPE, text=True) as ours:
        pid = json.loads(ours.stdout.readline())["pid"]
        assert is_alive(pid)
        ours.send_signal(signal.SIGKILL)
    await until(lambda: not is_alive(pid))


async def test_what_a_server_logs_is_logged_by_its_name_in_printable_lines(caplog):
    """H1, T4."""
    clean = lambda text: text.replace("top\nsecret", "[secret x]")  # noqa: E731
    with caplog.at_level(logging.INFO, "gloveport.hub.connection.standard_error"):
        async with using(hostile("talks"), clean=clean) as far:
            await far.call("bad", {})
            await until(lambda: "two [secret x]" in caplog.text)
    assert "server far: one\\u001b[2J" in caplog.messages
    assert "server far: two [secret x]" in caplog.messages
    assert "\x1b" not in caplog.text


async def test_a_flood_on_the_standard_error_costs_next_to_nothing_and_hinders_no_call(caplog):
    """H1: it is read slowly, and all of it; little is logged."""
    with caplog.at_level(logging.INFO, "gloveport.hub.connection.standard_error"):
        async with using(hostile("floods its standard error")) as far:
            for _ in range(20):
                await far.call("plain", {})
            await until(lambda: any("more lines" in message for message in caplog.messages))
            spent, began = time.process_time(), time.monotonic()
            before = len(caplog.messages)
            await anyio.sleep(0.5)
            seconds = time.monotonic() - began
            assert time.process_time() - spent < seconds / 4
            assert len(caplog.messages) - before < 1000 * seconds


LARGE = """
import anyio, functools, os, resource, sys
from gloveport.errors import UpstreamError
from gloveport.hub.connection import stdio_connection
from gloveport.hub.connection.upstream import Upstream
from gloveport.model.hub import Server

async def ignore(tools):
    pass

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

async def main():
    server = Server(command=(sys.executable, "-I", "-S", {hostile!r}, "huge line"), answer_bytes=1 << 20)
    connect = functools.partial(stdio_connection.connect, "far", server, environ=os.environ, secrets={{}}, clean=str)
    async with anyio.create_task_group() as tasks:
        upstream = Upstream("far", server, (connect,), tasks=tasks, on_tools=ignore)
        await upstream.call("plain", {{}})
        before = peak()
        try:
            await upstream.call("bad", {{}})
        except UpstreamError as error:
            print(error.code, peak() - before)
        await upstream.close()

anyio.run(main)
"""


async def test_a_line_of_25_megabytes_is_never_held():
    """H1, T5, P25: answer_bytes. Of 25 MB no more than the bound of 1 MiB, and a little, is ever in memory."""
    program = [sys.executable, "-c", LARGE.format(hostile=HOSTILE)]
    code, kilobytes = (await anyio.run_process(program, stderr=None)).stdout.split()
    assert code == b"answer_too_large"
    assert int(kilobytes) < 3 * 1024


async def test_nothing_of_many_connections_is_left(tmp_path):
    """No process, no descriptor."""

    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async with using(hostile("dies")) as far:
        await failure(far.call("bad", {}))
        before = descriptors()
        for _ in range(5):
            await far.call("plain", {})
            await failure(far.call("bad", {}))
        assert descriptors() == before


EMPTY = b"\n" * 100_000 + b" \n" * 50_000
CROWDED = b'{"jsonrpc": "2.0", "method": "x", "params": {"a": [%b1]}}\n' % (b"1, " * 60_000)


@pytest.mark.parametrize(("flood", "count"), [(EMPTY, 1), (CROWDED * 20, 21)])
async def test_a_flood_that_nobody_asked_for_holds_up_nobody(flood, count):
    """P25: each turn of the event loop took as long as to read thousands of empty lines, or very many values."""
    turns = 0
    stream = asyncio.StreamReader(limit=1 << 20)
    stream.feed_data(flood + b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    reader = _MessageReader(
        name="far", standard_error=StandardError("far", str), most=1 << 20, reader=stream, has_spoken=anyio.Event()
    )

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        messages = [await reader.receive() for _ in range(count)]
        tasks.cancel_scope.cancel()
    assert messages[-1].message.id == 1
    assert turns > 200
