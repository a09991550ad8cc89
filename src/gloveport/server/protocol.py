"""Makes the MCP server: which tools it offers, with which instructions and middleware, in both protocol eras."""

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from pydantic import JsonValue

from gloveport.bootstrap.inspection import inspect
from gloveport.config import Config
from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.server.rendering.structured import StructuredContent
from gloveport.server.rendering.workspace_replies import wrong_arguments
from gloveport.server.request_caller import share_of
from gloveport.server.tools import offer
from gloveport.server.tools.argument_check import ArgumentCheck
from gloveport.server.tools.artifact_tool import ArtifactListing, ArtifactTool
from gloveport.server.tools.code import Tools, describe
from gloveport.server.transports.file_transfer import FileTransfer
from gloveport.workspace_service.service import WorkspaceService

NAME = "gloveport"
INSTRUCTIONS = (
    "Runs Python, TypeScript, JavaScript and shell programs in sealed sandboxes. Do work in one program rather than in "
    "many calls, and print little."
)


@dataclass(frozen=True)
class KeepAlive:
    """Middleware that keeps commands alive while whoever began them calls any tool, also one without a workspace."""

    service: WorkspaceService

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass everything on."""
        if ctx.method == "tools/call":
            self.service.sandboxes.commands.see(share_of(ctx, self.service.transport))
        return await call_next(ctx)


def make_server(
    engine: Engine,
    config: Config,
    environ: Mapping[str, str],
    transport: Transport,
    service: WorkspaceService | None = None,
) -> MCPServer[Any]:
    """A server that runs programs by this engine, and with a ``service`` offers the tools of its workspace."""
    transfer = None
    if transport == "http":
        transfer = FileTransfer(store=engine.artifacts, most_bytes=int(engine.policy.limits.input_bytes))
    inspecting = functools.partial(inspect, config, environ)
    tools = Tools(engine=engine, inspect=inspecting, transport=transport, transfer=transfer)
    offers_code = "code" in config.workspace.toolsets or service is None
    code = describe(tools) if offers_code else []
    files = offer.describe_tools(service, version()) if service else []
    code = [tool for tool in code if tool.name not in {one.name for one in files}]  # theirs reads output of runs too
    server: MCPServer[Any] = MCPServer(
        NAME,
        title="Gloveport",
        version=version(),
        instructions=f"{INSTRUCTIONS if offers_code else ''}{offer.INSTRUCTIONS if service else ''}".strip(),
        tools=[*code, *files],
        middleware=[
            StructuredContent(
                config.clients.structured, frozenset(tool.name for tool in code if tool.fn_metadata.output_schema)
            ),
            ArtifactListing(store=engine.artifacts, transport=transport),
            *([KeepAlive(service)] if service else ()),
            ArgumentCheck(code),
            ArgumentCheck(files, wrong_arguments),
        ],
        log_level="WARNING",
    )
    if transfer is not None:
        transfer.add_routes(server)
    server.resource(
        "output://{run_id}/{stream}{?offset}",
        name="output",
        title="Output of a run",
        description="Output that an answer could not show, by pages.",
        mime_type="text/plain",
    )(tools.output)
    server.resource(
        "artifact://{bundle}/{number}",
        name="artifact",
        title="A file that a program left",
        description="What a program left in /out.",
        mime_type="application/octet-stream",  # nothing that a client might render
    )(ArtifactTool(engine=engine, transport=transport).artifact)
    return server


def version() -> str:
    """The version of this installation."""
    return importlib.metadata.version("gloveport")


@contextlib.asynccontextmanager
async def record_lifetime(engine: Engine, transport: Transport) -> AsyncIterator[None]:
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
