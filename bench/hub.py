"""The way out to tools: calls from a sandbox against the MCP SDK's own, search, and servers that are dead."""

import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
from mcp import Client, StdioServerParameters

from bench.measure import Case, Contender, Duel, Sample, WrongAnswer
from bench.processes import settled
from bench.subjects import GLOVEPORT
from gloveport.bootstrap.app import assemble
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.config import Config
from gloveport.hub.catalog import Catalog
from gloveport.hub.definition import Definition
from gloveport.model import Request
from gloveport.model.reading import read_value

_SERVER = str(Path(__file__).with_name("upstream_server.py"))
_SDK_SERVER = str(Path(__file__).with_name("sdk_server.py"))
_SINGLE = """
import statistics, time
times = []
for number in range(200):
    started = time.perf_counter()
    assert tools.bench.echo(text=str(number)) == str(number)
    times.append((time.perf_counter() - started) * 1000)
print(statistics.median(times))
"""
_PARALLEL = """
import asyncio, time
tools.bench.echo(text="0")
started = time.perf_counter()
answers = await asyncio.gather(*(tools.bench.echo.aio(text=str(number)) for number in range(100)))
print((time.perf_counter() - started) * 1000)
assert answers == [str(number) for number in range(100)]
"""
_SERVERS, _DEAD = 20, 5
_TOOLS = 2000
_FEW = 6
"""Samples of what starts a server and twenty others for each."""


def from_a_sandbox(code: str, server: str) -> Contender:
    """A program that calls the tool of this server, and prints what it has measured."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        bench = {"command": [sys.executable, server], "calls_per_minute": 1_000_000, "concurrent_calls": 100}
        config = read_value(Config, {"servers": {"bench": bench}})
        async with assemble(config, {"GLOVEPORT_STATE": str(scratch / "state")}, connect_servers) as engine:

            async def sample() -> float:
                await settled()
                result = await engine.execute(Request(language="python", code=code), caller="bench")
                if result.status != "ok":
                    raise WrongAnswer(result.model_dump_json(exclude={"grant"}, exclude_defaults=True))
                return float(result.stdout.text)

            yield sample

    return opened


def by_the_sdk(server: str, *, parallel: bool) -> Contender:
    """The SDK's client, in this process as the engine is, connected to this server."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        async with Client(StdioServerParameters(command=sys.executable, args=[server])) as client:

            async def call(number: int) -> float:
                started = time.perf_counter()
                result = await client.call_tool("echo", {"text": str(number)})
                if result.content[0].text != str(number):
                    raise WrongAnswer(result.model_dump_json())
                return (time.perf_counter() - started) * 1000

            async def single() -> float:
                return statistics.median([await call(number) for number in range(200)])

            async def together() -> float:
                started = time.perf_counter()
                async with anyio.create_task_group() as tasks:
                    for number in range(100):
                        tasks.start_soon(call, number)
                return (time.perf_counter() - started) * 1000

            yield together if parallel else single

    return opened


def searching(tools: int) -> Contender:
    """A search through so many tools."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        catalog = Catalog()
        catalog.replace("bench", "", [_tool(number) for number in range(tools)])

        async def sample() -> float:
            started = time.perf_counter()
            found, _total = catalog.search("create an issue in the tracker", 10, lambda _: True)
            if tools and len(found) != 10:
                raise WrongAnswer(f"{len(found)} tools were found")
            return (time.perf_counter() - started) * 1000

        yield sample

    return opened


def _tool(number: int) -> Definition:
    verb = ("create", "read", "update", "delete", "list")[number % 5]
    noun = ("issue", "file", "message", "customer", "invoice", "branch", "event")[number % 7]
    return Definition(
        server="bench",
        name=f"{verb}_{noun}_{number}",
        description=f"{verb.title()} one {noun} of the tracker number {number}, with all that belongs to it.",
        input_schema={"type": "object", "properties": {"title": {"type": "string"}, f"{noun}_id": {"type": "integer"}}},
    )


def starting(servers: int) -> Contender:
    """From the start of ``gloveport serve`` with so many servers, of which some never answer, to its list of tools."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        target = _many(scratch / f"start-{servers}", servers)

        async def sample() -> float:
            await settled()
            started = time.perf_counter()
            async with Client(target) as client:
                await client.list_tools()
                return (time.perf_counter() - started) * 1000

        yield sample

    return opened


def first_search(servers: int) -> Contender:
    """The first search of a server that nobody has ever asked for anything."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        runs = 0

        async def sample() -> float:
            nonlocal runs
            runs += 1
            async with Client(_many(scratch / f"search-{servers}-{runs}", servers)) as client:
                await settled()
                started = time.perf_counter()
                result = await client.call_tool("search_tools", {"query": "echo", "detail": "names", "limit": 50})
                passed = (time.perf_counter() - started) * 1000
            found = result.content[0].text.count(".echo")
            if servers and found < servers - _DEAD:
                raise WrongAnswer(f"{found} of {servers - _DEAD} servers were found: {result.content[0].text}")
            return passed

        yield sample

    return opened


def _many(scratch: Path, servers: int) -> StdioServerParameters:
    """A Gloveport with so many servers; the first of them never answer."""
    scratch.mkdir()
    lines = []
    for number in range(servers):
        command = ["/bin/sleep", "1000"] if number < _DEAD else [sys.executable, "-S", "-E", _SERVER]
        lines.append(f"[servers.s{number}]\ncommand = {json.dumps(command)}\n")
    (scratch / "gloveport.toml").write_text("".join(lines))
    return StdioServerParameters(
        command=GLOVEPORT,
        args=["serve", "--config", str(scratch / "gloveport.toml")],
        env={"GLOVEPORT_STATE": str(scratch / "state")},
    )


_SDK = "the MCP SDK's client"

CASES: Final[tuple[Case, ...]] = (
    Duel(
        name="tool-call",
        subject=from_a_sandbox(_SINGLE, _SDK_SERVER),
        baseline=_SDK,
        opponent=by_the_sdk(_SDK_SERVER, parallel=False),
        goal="<= 1.4",
    ),
    Duel(
        name="tool-call-bare",
        subject=from_a_sandbox(_SINGLE, _SERVER),
        baseline=_SDK,
        opponent=by_the_sdk(_SERVER, parallel=False),
    ),
    Duel(
        name="tool-parallel",
        subject=from_a_sandbox(_PARALLEL, _SDK_SERVER),
        baseline=_SDK,
        opponent=by_the_sdk(_SDK_SERVER, parallel=True),
    ),
    Duel(
        name="tool-search",
        subject=searching(_TOOLS),
        baseline="none to search",
        opponent=searching(0),
        goal="<= +5 ms",
    ),
    Duel(
        name="servers-start",
        subject=starting(_SERVERS),
        baseline="no servers",
        opponent=starting(0),
        goal="<= 1.1",
        samples=_FEW,
    ),
    Duel(
        name="servers-search",
        subject=first_search(_SERVERS),
        baseline="no servers",
        opponent=first_search(0),
        goal="<= +2000 ms",
        samples=_FEW,
    ),
)
