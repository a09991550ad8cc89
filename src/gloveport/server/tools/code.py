"""The tools for code, and a resource: one thin function each.

A call that ran a program is never marked as an error, whatever became of the program: clients shorten the text of error
results, and some hide their structured content. An error means that nothing was run.
"""

import contextlib
import math
import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypeAlias

import anyio
import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.tools import Tool
from msgspec import Struct
from pydantic import Field
from starlette.requests import Request as HttpRequest

from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.engine.runs import Run
from gloveport.engine.skill_search import FoundSkills, SkillSearch
from gloveport.hub.discovery import Detail, SearchResult, search
from gloveport.model import Result
from gloveport.model.egress import ApiName
from gloveport.model.pydantic_models import pydantic_model
from gloveport.sandbox.run.capture import PAGE_BYTES
from gloveport.server.rendering.api_text import apis_text
from gloveport.server.rendering.pages import PREFIX, not_kept, page_text, read_page
from gloveport.server.rendering.replies import error_reply, text_reply, to_wire
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.tool_search import found_text, nothing_found_text
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.argument_check import takes
from gloveport.server.tools.artifact_tool import ArtifactTool
from gloveport.server.tools.client_sampling import can_sample
from gloveport.server.tools.elicitation import Attendance, Reply, State
from gloveport.server.tools.health import Health, SharedInspection, audit_check, health_of, health_text
from gloveport.server.tools.lean_schema import lean
from gloveport.server.tools.progress import Progress, progress_for, reporting
from gloveport.server.tools.run_calls import WAIT_SECONDS, ExecuteArguments, RunCalls
from gloveport.server.tools.session_tool import SessionTool
from gloveport.server.transports.disconnect import ended_with
from gloveport.server.transports.file_transfer import FileTransfer
from gloveport.skills.skill_threads import SKILL_SEARCHES

RunId: TypeAlias = Annotated[str, Field(pattern=r"^run-[0-9a-f]{16}$")]

_PRESENCE_SECONDS = 0.5
_STATE_SECONDS = 600.0
"""How long the SDK accepts a returned state; a client that has not returned by then never will."""
_OFFSET = re.compile(r"[0-9]{1,15}")
_OPAQUE = frozenset(
    {"artifacts", "error", "stdout", "stderr", "grant", "limits_hit", "requests", "tool_calls", "usage", "checks"}
    | {"session"}
)
"""Properties of an answer whose schema is left out: a client may pay for each word with every request."""

_READS = wire.ToolAnnotations(read_only_hint=True, open_world_hint=False)
ACTS = wire.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_CLIENT_GONE = error_reply("the client closed the connection")


class Tools(Struct, frozen=True, kw_only=True):
    """The tools, and what they need.

    Attributes:
        inspection: Tries every isolation layer of this host.
        transport: How the client is connected, for the audit log.
        transfer: Transfers files over HTTP; None without HTTP.
        skills: Searches skills; None if none are offered.
    """

    engine: Engine
    inspection: SharedInspection
    transport: Transport
    transfer: FileTransfer | None = None
    skills: SkillSearch | None = None

    @property
    def calls(self) -> RunCalls:
        """The calls behind the tools, independent of the SDK."""
        return RunCalls(engine=self.engine)

    @takes(ExecuteArguments)
    async def execute_code(
        self, ctx: Context[Any, Any], arguments: ExecuteArguments
    ) -> Annotated[wire.CallToolResult, pydantic_model(Result)] | wire.InputRequiredResult:
        """Run a program in a fresh sandbox.

        The value is that of the last expression or of a top-level `return`; for shell, stdout where it is JSON.
        Python and TypeScript allow top-level await. Files left in /out come back as artifacts, pictures as images;
        Python shows plots, tables and `display(x)`. `files`: path to text, or to `base64:` and base64. The network
        leads to the APIs of `list_apis` alone, with any HTTP client; credentials are added on the way. `apis` narrows
        it to those and loads their types. Programs begin in /tmp; nothing is kept between runs but with `session`:
        `new` begins one, its id goes on with variables and files, in any language. After wait_seconds the answer is a
        run id for `wait_run`.
        """
        if ctx.request_state is not None:
            return await self.again(ctx)
        run = await self.calls.begin(
            arguments,
            caller_of(ctx, self.transport),
            can_sample=can_sample(ctx),
            take_ticket=self.transfer.take if self.transfer else None,
        )
        if isinstance(run, RunReply):
            return to_wire(run)
        return await self.attend(ctx, run, arguments.wait_seconds)

    async def wait_run(
        self,
        ctx: Context[Any, Any],
        run_id: RunId,
        wait_seconds: Annotated[float, Field(ge=0, le=3600)] = WAIT_SECONDS,
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Wait for a run that an answer gave as `running` or `waiting`, and return its result."""
        if ctx.request_state is not None:
            return await self.again(ctx)
        run = self.engine.runs.find(run_id, caller_of(ctx, self.transport).share)
        if run is None:
            return _unknown_run(run_id)
        return await self.attend(ctx, run, wait_seconds)

    async def cancel_run(self, ctx: Context[Any, Any], run_id: RunId) -> wire.CallToolResult:
        """End a run; in a session, interrupt its call."""
        run = self.engine.runs.find(run_id, caller_of(ctx, self.transport).share)
        if run is None:
            return _unknown_run(run_id)
        run.cancel()
        while not run.is_over:
            await run.wait_changed(_PRESENCE_SECONDS)
        return to_wire(self.calls.render(run))

    async def search_tools(
        self,
        ctx: Context[Any, Any],
        query: Annotated[str, Field(max_length=500)] = "",
        detail: Detail = "signatures",
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> wire.CallToolResult:
        """Find tools that programs may call: in Python `tools.SERVER.TOOL(name=value)`, in TypeScript
        `await tools.SERVER.TOOL({name: value})`, in shell `tools SERVER TOOL --name value`. Best first; results are
        plain data, failures raise `ToolError`.
        """
        share = caller_of(ctx, self.transport).share
        found, skills = await self._search(query, limit, share)
        text = await to_thread.run_sync(lambda: self.engine.clean(found_text(self.engine.hub, found, detail, skills)))
        if not text:
            found, skills = await self._search("", 1, share)
            text = nothing_found_text(found.total + skills.total)
        return text_reply(text)

    async def _search(self, query: str, limit: int, share: str) -> tuple[SearchResult, FoundSkills]:
        found = await search(self.engine.hub, self.engine.reach.toolbox, query, limit)
        if self.skills is None:
            return found, FoundSkills((), 0)
        return found, await SKILL_SEARCHES.run(self.skills.search, query, limit, share)

    async def list_apis(self, name: ApiName | None = None) -> wire.CallToolResult:
        """What programs may reach: hosts, what may be asked of them, and how credentials get there.

        With `name`, one API and its types.
        """
        text = apis_text(self.engine.reach.egress, name)
        if not text:
            return error_reply(f"there is no API {name!r}", "hint: call list_apis without a name")
        return text_reply(text)

    async def read_output(
        self,
        ctx: Context[Any, Any],
        output_ref: Annotated[str, Field(max_length=256)],
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=PAGE_BYTES)] = 16_384,
    ) -> wire.CallToolResult:
        """Read output that an answer cut, from byte offset on."""
        page = read_page(self.engine.archive, output_ref, caller_of(ctx, self.transport).share, offset, limit)
        if page is None:
            what, hint = not_kept(output_ref)
            return error_reply(what, f"hint: {hint}")
        return text_reply(page_text(page))

    async def health(self, ctx: Context[Any, Any]) -> Annotated[wire.CallToolResult, pydantic_model(Health)]:
        """Try every layer of the sandbox and the audit log, and count the runs that are going on and waiting."""
        checks = [check for check in await self.inspection.checks() if check.name != "audit"]
        checks.append(audit_check(self.engine.audit, caller_of(ctx, self.transport).name))
        health = health_of(self.engine.admission, checks)
        return wire.CallToolResult(
            content=[wire.TextContent(type="text", text=health_text(health))],
            structured_content=health.model_dump(mode="json", exclude_defaults=True),
        )

    async def output(self, ctx: Context[Any, Any], run_id: str, stream: str, offset: str = "0") -> str:
        """What a run wrote beyond what its answer showed, from byte `offset` on; the last line names the next page."""
        handle = f"{PREFIX}{run_id}/{stream}"
        if not _OFFSET.fullmatch(offset):
            raise ResourceNotFoundError(f"{offset!r} is no offset: give the number of a byte, from 0 on")
        page = self.engine.archive.page(handle, caller_of(ctx, self.transport).share, int(offset))
        if page is None:
            raise ResourceNotFoundError(": ".join(not_kept(handle)))
        text, following = page
        return text if following is None else f"{text}\n[continues at {handle}?offset={following}]"

    async def again(self, ctx: Context[Any, Any]) -> Reply:
        """Continue a run when a client on 2026-07-28 returns with its answers. The SDK has unsealed the state."""
        state = State.read(ctx.request_state or "")
        run = self.engine.runs.find(state.run_id, caller_of(ctx, self.transport).share)
        if run is None:
            return _unknown_run(state.run_id)
        return await self.attend(ctx, run, WAIT_SECONDS, state)

    async def attend(self, ctx: Context[Any, Any], run: Run, seconds: float, state: State | None = None) -> Reply:
        """Attend to a run for so many seconds; return its result or its state."""
        progress = progress_for(ctx)
        run.on_output = None if progress is None else progress.add
        run.expect(math.inf)
        reply: Reply = _CLIENT_GONE
        async with _beside(progress, ctx.request_context.request):
            needed = await Attendance(ctx=ctx, run=run, desk=self.engine.desk, state=state).attend(seconds)
            if needed is not None and not run.handed_out:
                run.expect(_STATE_SECONDS)
            reply = needed or to_wire(self.calls.render(run))
        return reply  # noqa: RET504 - the context may have ended what was in it


def describe(tools: Tools) -> list[Tool]:
    """Describe the tools for clients."""
    execute = describe_tool(tools.execute_code, "Run code in a sandbox", ACTS)
    artifacts = ArtifactTool(engine=tools.engine, transport=tools.transport, transfer=tools.transfer)
    offered = [
        execute,
        describe_tool(SessionTool(engine=tools.engine, transport=tools.transport).session, "Sessions", ACTS),
        describe_tool(tools.wait_run, "Wait for a run", ACTS),
        describe_tool(tools.cancel_run, "Cancel a run", ACTS),
        describe_tool(tools.read_output, "Read output of a run", _READS),
        describe_tool(artifacts.read_artifact, "Read what a program left", _READS),
        describe_tool(tools.search_tools, "Search tools", _READS),
        describe_tool(tools.list_apis, "APIs", _READS),
        describe_tool(tools.health, "Health of the sandbox", _READS),
    ]
    if tools.transfer is not None:
        execute.description += " Over HTTP, `files` takes the ticket that `PUT /uploads` of this server answers, too."
    return offered


def describe_tool(function: Callable[..., Any], title: str, annotations: wire.ToolAnnotations) -> Tool:
    """Describe one tool for clients."""
    tool = Tool.from_function(function, title=title, annotations=annotations)
    tool.parameters = lean(tool.parameters)
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = lean(tool.fn_metadata.output_schema, opaque=_OPAQUE)
    tool.fn_metadata.output_model = None  # the SDK would check each answer against the class that it was made from
    tool.description = " ".join(tool.description.split())
    return tool


def _unknown_run(run_id: str) -> wire.CallToolResult:
    return error_reply(
        f"there is no run {run_id} of yours, or no longer", "hint: run the program again; results are kept for a while"
    )


@contextlib.asynccontextmanager
async def _beside(progress: Progress | None, request: object) -> AsyncIterator[None]:
    """Send a run's progress meanwhile, and cancel the run when its HTTP client has gone; often there is neither."""
    async with reporting(progress):
        if not isinstance(request, HttpRequest):
            yield
            return
        async with anyio.create_task_group() as tasks, ended_with(request, tasks.cancel_scope):
            yield
