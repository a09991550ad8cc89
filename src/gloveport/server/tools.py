"""The tools and the resource that a client sees: one thin function each.

A program that ran is a result, whatever became of it, and not marked as an error: clients cut the text of error results
short and some hide their structured content. An error is a call that ran nothing.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

import anyio
import mcp_types as wire
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.tools import Tool
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ByteSize, Field
from starlette.requests import Request as HttpRequest

from gloveport.engine import Engine
from gloveport.errors import AuditError, GloveportError
from gloveport.model import MIB, Language, Narrowing, Request, Result, Value
from gloveport.model.egress import ApiName
from gloveport.sandbox.probe import Check
from gloveport.server.apis import apis_text
from gloveport.server.arguments import failed
from gloveport.server.progress import Progress
from gloveport.server.render import answer
from gloveport.server.schema import lean

Transport: TypeAlias = Literal["stdio", "http"]

_CLAIM_CHARACTERS = 64
_PRESENCE_SECONDS = 0.5
_OFFSET = re.compile(r"[0-9]{1,15}")
_GONE = failed("the client closed the connection")


class Health(Value):
    """What the server can do at this moment, found by trying."""

    status: Literal["ok", "busy", "failing"]
    """``busy``: a new run would be refused or has to wait. ``failing``: a layer or the audit log is missing."""

    running: int
    waiting: int
    concurrent_runs: int
    queue_length: int
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What the tools work on.

    Attributes:
        inspect: Tries every layer of this host for real.
        transport: How the client is connected, for the audit log.
    """

    engine: Engine
    inspect: Callable[[], Awaitable[list[Check]]]
    transport: Transport
    _inspecting: anyio.Lock = field(default_factory=anyio.Lock)

    async def execute_code(
        self,
        ctx: Context[Any, Any],
        language: Language,
        code: str,
        timeout_seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None,
        memory_mib: Annotated[int | None, Field(ge=32, le=1 << 20)] = None,
        ansi: Literal["strip", "keep"] = "strip",
        apis: Annotated[list[ApiName] | None, Field(max_length=64)] = None,
    ) -> Annotated[wire.CallToolResult, Result]:
        """Run a program in a fresh sealed sandbox and return its status, value, stdout, stderr and error.

        The value is that of the last expression or of a top-level `return`; for shell, stdout where it is JSON.
        Python and TypeScript allow top-level await. The network leads to the APIs of `list_apis` alone, with any HTTP
        client; credentials are added on the way. `apis` narrows it to those and loads their types. /tmp is writable;
        nothing is kept between runs.
        """
        limits = Narrowing(
            wall_seconds=timeout_seconds, memory_bytes=None if memory_mib is None else ByteSize(memory_mib * MIB)
        )
        names = None if apis is None else tuple(apis)
        request = Request(language=language, code=code, limits=limits, ansi=ansi, apis=names)
        asked = "progress_token" in (ctx.request_context.meta or ())
        progress = Progress(send=ctx.report_progress) if asked else None
        reply = _GONE
        async with _beside(progress, ctx.request_context.request):
            try:
                result = await self.engine.execute(
                    request,
                    caller=self._caller(ctx),
                    share=self._share(ctx),
                    on_output=None if progress is None else progress.add,
                )
            except GloveportError as error:
                reply = failed("the program was not run, or what became of it is not known", str(error))
            else:
                reply = _reply(result)
        return reply

    async def list_apis(self, name: ApiName | None = None) -> wire.CallToolResult:
        """What programs may reach: hosts, what may be asked of them, and how credentials get there.

        With `name`, one API and its types.
        """
        text = apis_text(self.engine.reach.egress, name)
        if not text:
            return failed(f"there is no API {name!r}", "hint: call list_apis without a name")
        return wire.CallToolResult(content=[wire.TextContent(type="text", text=text)])

    async def health(self, ctx: Context[Any, Any]) -> Annotated[wire.CallToolResult, Health]:
        """Try every layer of the sandbox and the audit log, and count the runs that are going on and waiting."""
        async with self._inspecting:  # one sandbox at a time: asking for health takes no place in the queue
            checks = [check for check in await self.inspect() if check.name != "audit"]
        checks.append(self._audit_check(ctx))
        admission = self.engine.admission
        full = admission.running >= admission.concurrent_runs
        missing = any(check.state == "missing" for check in checks)
        health = Health(
            status="failing" if missing else "busy" if full else "ok",
            running=admission.running,
            waiting=admission.waiting,
            concurrent_runs=admission.concurrent_runs,
            queue_length=admission.queue_length,
            checks=tuple(checks),
        )
        return wire.CallToolResult(
            content=[wire.TextContent(type="text", text=_health_text(health))],
            structured_content=health.model_dump(mode="json", exclude_defaults=True),
        )

    async def output(self, run_id: str, stream: str, offset: str = "0") -> str:
        """What a run wrote beyond what its answer showed, from byte `offset` on; the last line names the next page."""
        handle = f"output://{run_id}/{stream}"
        if not _OFFSET.fullmatch(offset):
            raise ResourceNotFoundError(f"{offset!r} is no offset: give the number of a byte, from 0 on")
        page = self.engine.archive.page(handle, int(offset))
        if page is None:
            raise ResourceNotFoundError(f"{handle} is not kept, or no longer: run the program again and print less")
        text, following = page
        return text if following is None else f"{text}\n[continues at {handle}?offset={following}]"

    def _caller(self, ctx: Context[Any, Any]) -> str:
        """Who asks. The name is what the client says of itself: nothing is decided by it."""
        params = ctx.session.client_params
        if params is None:
            return f"{self.transport} (claims no name)"
        claim = f"{params.client_info.name} {params.client_info.version}"
        return f"{self.transport} (claims to be {claim[:_CLAIM_CHARACTERS]})"

    def _share(self, ctx: Context[Any, Any]) -> str:
        """Whose share a run takes: a session of the handshake protocols; all else on this transport is one caller.

        The SDK has matched the header with the session by now, but in the handshake protocols alone: 2026-07-28 knows
        no sessions and passes over the header. Nor is the connection anybody: a client opens one for each of its
        requests that go on at once, and X-Forwarded-For names another.
        """
        request = ctx.request_context.request
        if isinstance(request, HttpRequest) and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return request.headers["mcp-session-id"]
        return self.transport

    def _audit_check(self, ctx: Context[Any, Any]) -> Check:
        """Whether a record can be written now: a full disk shows only when it is tried."""
        try:
            self.engine.audit.append("health.asked", {"caller": self._caller(ctx)})
        except AuditError as error:
            return Check(name="audit", state="missing", detail=error.args[0], repair=error.hint)
        return Check(name="audit", state="enforced", detail="a record was written")


def describe(tools: Tools) -> list[Tool]:
    """The tools as a client is told of them."""
    execute = Tool.from_function(
        tools.execute_code,
        title="Run code in a sandbox",
        annotations=wire.ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
        ),
    )
    health = Tool.from_function(
        tools.health,
        title="Health of the sandbox",
        annotations=wire.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    apis = Tool.from_function(
        tools.list_apis,
        title="APIs that programs may call",
        annotations=wire.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    for tool in (execute, apis, health):
        tool.parameters = lean(tool.parameters)
        if tool.fn_metadata.output_schema is not None:
            tool.fn_metadata.output_schema = lean(tool.fn_metadata.output_schema, opaque=frozenset({"grant"}))
        tool.fn_metadata.output_model = None  # the SDK would check each answer against the class that it was made from
        tool.description = " ".join(tool.description.split())
    policy = tools.engine.policy
    # The operator's numbers: what is asked above them is lowered to them without a word.
    execute.description += (
        f" Limits: {policy.limits.wall_seconds:g} s (without timeout_seconds {policy.default_wall_seconds:g} s) and"
        f" {policy.limits.memory_bytes // MIB} MiB; more can't be had."
    )
    if policy.mounts:
        execute.description += f" Files of the owner to read: {', '.join(mount.target for mount in policy.mounts)}."
    return [execute, apis, health]


@contextlib.asynccontextmanager
async def _beside(progress: Progress | None, request: object) -> AsyncIterator[None]:
    """What goes on beside a run: its progress is sent, and when its client goes, it ends. Often there is neither."""
    if progress is None and not isinstance(request, HttpRequest):
        yield
        return
    async with anyio.create_task_group() as tasks:
        if progress is not None:
            tasks.start_soon(progress.report)
        if isinstance(request, HttpRequest):
            tasks.start_soon(_cancel_when_gone, request, tasks.cancel_scope)
        yield
        tasks.cancel_scope.cancel()


async def _cancel_when_gone(request: HttpRequest, scope: anyio.CancelScope) -> None:
    """End a run whose answer nobody can get: the handshake protocols would let it go on when its connection closes."""
    while True:
        if await request.is_disconnected():
            scope.cancel()
        await anyio.sleep(_PRESENCE_SECONDS)


def _reply(result: Result) -> wire.CallToolResult:
    # What has its default is left out, but for the grant's limits: the answer says which were in force.
    structured = result.model_dump(mode="json", exclude_defaults=True)
    structured.setdefault("grant", {})["limits"] = result.grant.limits.model_dump(mode="json")
    return wire.CallToolResult(
        is_error=result.status == "denied",
        content=[wire.TextContent(type="text", text=answer(result))],
        structured_content=structured,
    )


def _health_text(health: Health) -> str:
    lines = [f"{health.status}: {health.running} of {health.concurrent_runs} running, {health.waiting} waiting"]
    for check in health.checks:
        repair = f" hint: {check.repair}" if check.repair else ""
        lines.append(f"{check.state} {check.name}: {check.detail}{repair}")
    return "\n".join(lines)
