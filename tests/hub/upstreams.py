"""What tests of connections share: upstream servers, which are real programs, and ways to them."""

import contextlib
import functools
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
from tests import forked

import gloveport
from gloveport.errors import UpstreamError
from gloveport.hub.connection import http_connection, stdio_connection
from gloveport.hub.connection.upstream import Upstream
from gloveport.hub.definition import Definition
from gloveport.hub.server_state import OnTools
from gloveport.model.hub import Server

FAR_SIDE = Path(__file__).parent.parent / "far_side"
PLAIN, HOSTILE = FAR_SIDE / "mcp_plain.py", str(FAR_SIDE / "mcp_hostile.py")
_START = Path(gloveport.__file__).with_name("guest") / "start.py"


def plain(**told) -> Server:
    """A server made with the SDK, over its standard streams."""
    return Server(command=forked.command(PLAIN, "stdio"), **told)


def quick_command(script: Path | str, *arguments: str) -> list[str]:
    """The command of a server that needs the standard library alone, which starts from its cached bytecode."""
    return [sys.executable, "-I", "-S", str(_START), str(script), *arguments]


def hostile(conduct: str, **told) -> Server:
    """One that does something wrong."""
    return Server(command=quick_command(HOSTILE, conduct), **told)


async def ignore(_tools: tuple[Definition, ...]) -> None:
    """What a server offers."""


def noting(told: list[tuple[Definition, ...]]) -> OnTools:
    """Notes what a server offers, each time that it says so."""

    async def note(tools: tuple[Definition, ...]) -> None:
        told.append(tools)

    return note


@contextlib.asynccontextmanager
async def using(
    server: Server, *, secrets=None, clean=str, environ=os.environ, auth=None, verify=None, proxy=None, **told
) -> AsyncIterator[Upstream]:
    """An upstream in a task group of its own, closed in the end."""
    if server.command:
        given = {"environ": environ, "secrets": secrets or {}, "clean": clean}
        ways = (functools.partial(stdio_connection.connect, "far", server, **given),)
    else:
        verify = verify or ssl.create_default_context()
        transports = ("http", "sse") if server.transport == "auto" else (server.transport,)
        ways = tuple(
            functools.partial(
                http_connection.connect,
                "far",
                server.model_copy(update={"transport": transport}),
                auth=auth,
                verify=verify,
                proxy=proxy,
            )
            for transport in transports
        )
    async with anyio.create_task_group() as tasks:
        told = {"on_tools": ignore, "clean": clean} | told
        upstream = Upstream("far", server, ways, tasks=tasks, **told)
        yield upstream
        await upstream.close()


@dataclass(frozen=True)
class Listening:
    """A server made with the SDK that speaks over HTTP: its address, and its process."""

    url: str
    process: "subprocess.Popen[str]"


@contextlib.contextmanager
def listening(kind: str) -> Iterator[Listening]:
    """Start one: ``http``, ``json`` or ``sse``."""
    process = forked.shared().start_script(PLAIN, kind, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        yield Listening(f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}", process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def words(result):
    """What stands in a result's only block, as JSON where it is that."""
    (block,) = result.content
    try:
        return json.loads(block.text)
    except ValueError:
        return block.text


async def failure(awaited) -> UpstreamError:
    """How this fails."""
    try:
        await awaited
    except UpstreamError as error:
        return error
    raise AssertionError("it has not failed")


def is_alive(pid: int) -> bool:
    """Whether a process is there that is not just waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def give_up_a_call(far) -> None:
    """Give up calls of a plain server, each later than the one before, until one had come there and is told to stop."""
    seconds = 0.1
    with anyio.fail_after(60):
        while "given up" not in (await far.call("stopped", {})).structured_content["result"]:
            seconds *= 2
            with anyio.move_on_after(seconds):
                await far.call("sleep", {"seconds": 60, "name": "given up"})


async def until(condition, seconds: float = 30) -> None:
    """Wait until this holds."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)
