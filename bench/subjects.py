"""What is measured of Gloveport: its engine in this process, and its server, asked by clients of the MCP SDK."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import anyio
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters

from bench.measure import Action, Contender, Sample, WrongAnswer, timed
from bench.programs import Program
from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.engine.execution import Engine
from gloveport.model import Request

WARM = Config()
COLD = Config(pool=PoolSettings(forked=0, booted=0))
_CROWD = 32  # as many as wait at most, twice, and no more than the queue takes

GLOVEPORT = str(Path(sys.executable).with_name("gloveport"))


def engine(program: Program, config: Config) -> Contender:
    """One run at a time through an engine."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async with runner(program, config, scratch) as run:
            yield timed(run)

    return opened


@contextlib.asynccontextmanager
async def runner(program: Program, config: Config, scratch: Path) -> AsyncIterator[Action]:
    """An engine of this process that runs one program again and again."""
    async with assemble(config, _environ(scratch)) as assembled:
        yield execution(assembled, program)


def execution(engine: Engine, program: Program) -> Action:
    """A program, run by an engine of this process."""

    async def run() -> None:
        result = await engine.execute(Request(language=program.language, code=program.code), caller="bench")
        if (result.status, result.stdout.text) != ("ok", program.prints):
            raise WrongAnswer(result.model_dump_json(exclude={"grant"}, exclude_defaults=True))

    return run


async def fill_pool(runs: Iterable[Action]) -> None:
    """Have as many sandboxes wait as may: so many callers want each of these at once that none is left meanwhile."""
    for run in runs:
        async with anyio.create_task_group() as tasks:
            for _ in range(_CROWD):
                tasks.start_soon(run)


def over_stdio(program: Program) -> Contender:
    """One call at a time over stdio, the connection kept open."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        command = StdioServerParameters(command=GLOVEPORT, args=_arguments(scratch), env=_environ(scratch))
        async with Client(command) as client:
            yield timed(call(client, program))

    return opened


def over_http(program: Program) -> Contender:
    """One call at a time over streamable HTTP."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async with served(scratch) as (url, _), Client(url) as client:
            yield timed(call(client, program))

    return opened


@contextlib.asynccontextmanager
async def served(
    scratch: Path, configuration: str = "", variables: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[tuple[str, int]]:
    """``gloveport serve`` over HTTP on a free port: its address and process id.

    Args:
        configuration: Text of its configuration.
        variables: What its environment holds besides.
    """
    command = [GLOVEPORT, *_arguments(scratch, configuration), "--http", "--port", "0"]
    environ = {**os.environ, **variables, **_environ(scratch)}
    async with await anyio.open_process(command, stdin=None, stdout=None, env=environ) as process:
        assert process.stderr is not None
        said = ""
        async for text in TextReceiveStream(process.stderr):
            said += text
            if said.endswith("\n"):
                break
        if not (address := said.split()[-1:]) or not address[0].startswith("http://"):
            raise WrongAnswer(said.strip())
        try:
            yield address[0], process.pid
        finally:
            process.terminate()


def call(client: Client, program: Program) -> Action:
    """A program, asked for by an MCP client."""

    async def run() -> None:
        answer = await client.call_tool("execute_code", {"language": program.language, "code": program.code})
        result = answer.structured_content or {}
        if (result.get("status"), result.get("stdout", {}).get("text")) != ("ok", program.prints):
            raise WrongAnswer(str(result or answer.content))

    return run


def _arguments(scratch: Path, configuration: str = "") -> list[str]:
    """Serve with this and else the defaults, whatever the user's own configuration says."""
    file = scratch / "gloveport.toml"
    file.write_text(configuration)
    return ["serve", "--config", str(file)]


def _environ(scratch: Path) -> dict[str, str]:
    return {"GLOVEPORT_STATE": str(scratch / "state")}
