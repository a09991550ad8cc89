"""The MCP server: what is offered, under which name, with which words, in both protocol eras."""

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
from mcp.server import MCPServer
from pydantic import JsonValue

from gloveport.config import Config
from gloveport.engine.execution import Engine
from gloveport.server.arguments import ArgumentCheck
from gloveport.server.caller import Transport
from gloveport.server.inspection import inspect
from gloveport.server.structured import StructuredContent
from gloveport.server.tools import Tools, describe
from gloveport.server.workspace import offer
from gloveport.server.workspace.context import Bench
from gloveport.server.workspace.keep_alive import Hearing
from gloveport.server.workspace.replies import wrong_arguments

NAME = "gloveport"
INSTRUCTIONS = (
    "Runs Python, TypeScript, JavaScript and shell programs in sealed sandboxes. Do work in one program rather than in "
    "many calls, and print little."
)


def make_server(
    engine: Engine, config: Config, environ: Mapping[str, str], transport: Transport, bench: Bench | None = None
) -> MCPServer[Any]:
    """A server that runs programs by this engine, and with a ``bench`` offers the tools of its workspace."""
    tools = Tools(engine=engine, inspect=functools.partial(inspect, config, environ), transport=transport)
    offers_code = "code" in config.workspace.toolsets or bench is None
    code = describe(tools) if offers_code else []
    files = offer.describe(bench, version()) if bench else []
    code = [tool for tool in code if tool.name not in {one.name for one in files}]  # theirs reads output of runs too
    server: MCPServer[Any] = MCPServer(
        NAME,
        title="Gloveport",
        version=version(),
        instructions=f"{INSTRUCTIONS if offers_code else ''}{offer.INSTRUCTIONS if bench else ''}".strip(),
        tools=[*code, *files],
        middleware=[
            StructuredContent(config.clients.structured),
            *([Hearing(bench)] if bench else ()),
            ArgumentCheck(code),
            ArgumentCheck(files, wrong_arguments),
        ],
        log_level="WARNING",
    )
    server.resource(
        "output://{run_id}/{stream}{?offset}",
        name="output",
        title="Output of a run",
        description="Output that an answer could not show, by pages.",
        mime_type="text/plain",
    )(tools.output)
    return server


def version() -> str:
    """The version of this installation."""
    return importlib.metadata.version("gloveport")


@contextlib.asynccontextmanager
async def recorded(engine: Engine, transport: Transport) -> AsyncIterator[None]:
    """Write down that a server starts, and, when all of its runs have ended, that it stops.

    Raises:
        AuditError: It can't be written; the server must not start.
    """
    facts: dict[str, JsonValue] = {"version": version(), "transport": transport, "pid": os.getpid()}
    engine.audit.append("server.start", facts)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await engine.runs.end()
        engine.audit.append("server.stop", facts)
