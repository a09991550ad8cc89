"""Makes the MCP server: which tools it offers, with which instructions and middleware, in both protocol eras."""

import functools
from collections.abc import Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from msgspec import Struct

from gloveport.bootstrap.inspection import inspect
from gloveport.config import Config
from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.engine.skill_search import SkillSearch
from gloveport.server.rendering.structured import StructuredContent
from gloveport.server.rendering.workspace_replies import wrong_arguments
from gloveport.server.request_caller import share_of
from gloveport.server.server_offer import NAME, TITLE, ServerOffer, version_of_gloveport
from gloveport.server.tools import offer
from gloveport.server.tools.argument_check import ArgumentCheck
from gloveport.server.tools.artifact_tool import ArtifactListing, ArtifactTool
from gloveport.server.tools.code import Tools, describe
from gloveport.server.tools.health import SharedInspection
from gloveport.server.tools.name_limit import limit_names
from gloveport.server.tools.skill_resources import SkillExtension, SkillListing, SkillTexts, add_skill_texts
from gloveport.server.tools.skill_tools import describe_skill_tools
from gloveport.server.transports.file_transfer import FileTransfer
from gloveport.workspace_service.service import WorkspaceService


class KeepAlive(Struct, frozen=True):
    """Middleware that keeps a caller's commands alive while it calls any tool, also one that is not the workspace's."""

    service: WorkspaceService

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass every request on."""
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
    """Make a server that runs programs by this engine, and with a ``service`` offers the tools of its workspace."""
    transfer = None
    if transport == "http":
        transfer = FileTransfer(store=engine.artifacts, most_bytes=int(engine.policy.limits.input_bytes))
    inspection = SharedInspection(inspect=functools.partial(inspect, config, environ))
    offered = _offer(engine, config, service)
    skills = SkillSearch(library=engine.skills) if offered.has_skills else None
    tools = Tools(engine=engine, inspection=inspection, transport=transport, transfer=transfer, skills=skills)
    code = describe(tools) if offered.has_code else []
    code += describe_skill_tools(tools) if skills else []
    files = offer.describe_tools(service, version_of_gloveport()) if service else []
    suffixes = offered.suffixes()
    for tool in (*code, *files):
        tool.description += suffixes.get(tool.name, "")
    code = [tool for tool in code if tool.name not in {one.name for one in files}]  # its read_output reads runs too
    server: MCPServer[Any] = MCPServer(
        NAME,
        title=TITLE,
        version=version_of_gloveport(),
        instructions=offered.instructions(),
        tools=[*code, *files],
        middleware=[
            limit_names,
            StructuredContent(
                config.clients.structured, frozenset(tool.name for tool in code if tool.fn_metadata.output_schema)
            ),
            ArtifactListing(store=engine.artifacts, transport=transport),
            *([SkillListing(search=skills, transport=transport)] if skills else ()),
            *([KeepAlive(service)] if service else ()),
            ArgumentCheck(code),
            ArgumentCheck(files, wrong_arguments),
        ],
        extensions=[SkillExtension(engine.skills, transport)] if skills else [],
        log_level="WARNING",
    )
    if transfer is not None:
        transfer.add_routes(server)
    add_resources(server, tools, ArtifactTool(engine=engine, transport=transport))
    if skills:
        add_skill_texts(server, SkillTexts(library=engine.skills, transport=transport))
    return server


def add_resources(server: MCPServer[Any], tools: Tools, artifacts: ArtifactTool) -> None:
    """Add the resources."""
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
        mime_type="application/octet-stream",  # a type that no client renders
    )(artifacts.artifact)


def _offer(engine: Engine, config: Config, service: WorkspaceService | None) -> ServerOffer:
    """Make the offer of this host."""
    toolsets = config.workspace.toolsets
    if service is None:
        toolsets = tuple(name for name in toolsets if name != "workspace")
    settings = config.workspace.model_copy(update={"toolsets": toolsets})
    return ServerOffer(
        config=config.model_copy(update={"workspace": settings, "policy": engine.policy}),
        packages=engine.runtimes["python"].packages,
        writable=engine.writable.target if engine.writable else "",
    )
