"""Tools that run, feed and end commands, and read their output; names and fields are those of coding-tools-mcp."""

import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from mcp.server.mcpserver import Context
from msgspec import Struct
from pydantic import Field

from gloveport.engine.caller import Caller
from gloveport.errors import Denied
from gloveport.model import Stream
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.pages import PREFIX, not_kept, page_text, read_page
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import refusal, reply
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.argument_check import takes
from gloveport.server.tools.progress import progress_for, reporting
from gloveport.server.transports.disconnect import ended_with
from gloveport.workspace.commands.answers import AnswerBounds, answer, page, parse_reference, told_offsets
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.tool_types import Bytes
from gloveport.workspace_service.command_requests import (
    CommandArguments,
    Size,
    Wait,
    feed_command,
    start_command,
    terminal_size,
)
from gloveport.workspace_service.service import Fields, WorkspaceService

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]

_SETTLE_SECONDS: Final = 0.05
"""How long to wait for further output after input to a command has had its first effect."""

_SIGNALS: Final = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "INT": signal.SIGINT}
_DIAGNOSED: Final[Mapping[str, str]] = {
    "network": "NETWORK_PERMISSION_REQUIRED",
    "shell_expansion": "SHELL_EXPANSION_PERMISSION_REQUIRED",
    "inline_script": "INLINE_SCRIPT_PERMISSION_REQUIRED",
    "sensitive_env": "SECRET_ENV_REJECTED",
}
"""Gates for which clients expect a diagnosis too."""


class StdinArguments(AnswerBounds):
    """What ``write_stdin`` takes."""

    command_id: Id
    chars: str = ""
    yield_time_ms: Wait = 10_000
    wait_for: Literal["exit", "output"] | None = None
    rows: Size = None
    columns: Size = None


class KillArguments(AnswerBounds):
    """What ``kill_command`` takes."""

    command_id: Id
    signal: Literal["TERM", "KILL", "INT"] = "TERM"
    wait_ms: Wait = 5000
    kill_wait_ms: Wait = 2000


class CommandTools(Struct, frozen=True, kw_only=True):
    """The tools for commands."""

    service: WorkspaceService

    @takes(CommandArguments)
    async def exec_command(self, ctx: Context[Any, Any], arguments: CommandArguments) -> RunReply:
        """Run a command of bash in the workspace, in a sandbox with nothing else of the host. After yield_time_ms it
        goes on, and write_stdin waits for it. tty gives it a terminal; keep_stdin lets write_stdin feed a pipe.
        `apply_patch <<'EOF'` is a command too: edit and test in one call. What it leaves running ends with it, but in
        a session: `new` begins one, whose id the next command goes on with, in the same shell, with its servers and
        files of /tmp.
        """
        return await self.execute(arguments, partial(self._start, ctx, arguments), ctx.request_context.request)

    async def execute(
        self, arguments: CommandArguments, start: Callable[[], Awaitable[Command]], request: object = None
    ) -> RunReply:
        """Start a command, wait for it, and report on it. If ``request``, over HTTP, breaks off, the command ends."""
        started = time.monotonic()
        try:
            command = await start()
            at = told_offsets(command)
            try:
                keep: Literal["keep", "close"] = "keep" if arguments.tty or arguments.keep_stdin else "close"
                with contextlib.suppress(WorkspaceError):  # it has ended, or closed its input: the answer says so
                    await self.service.sandboxes.commands.feed(command, arguments.stdin, until=started, then=keep)
                async with ended_with(request, command.scope):
                    await _wait_for(command, started + arguments.yield_time_ms / 1000, at if arguments.tty else None)
            except BaseException:  # the call was cancelled, so nobody knows the command's id
                command.scope.cancel()
                raise
        except (WorkspaceError, Denied) as error:
            return refusal(error, {"status": "failed", **_permission_request(error)})
        fields = {**answer(command, at, arguments), "elapsed_ms": round(1000 * (time.monotonic() - started))}
        return _reply(fields)

    @takes(StdinArguments)
    async def write_stdin(self, ctx: Context[Any, Any], arguments: StdinArguments) -> RunReply:
        """Write to a command, or, with no chars, wait for its end; with wait_for=output, as where it has a terminal or
        reads chars, for what it says next. Character 3 is Ctrl-C. rows and columns size its terminal.
        """
        try:
            command = self._find(ctx, arguments.command_id)
            at, deadline = told_offsets(command), time.monotonic() + arguments.yield_time_ms / 1000
            if (arguments.rows or arguments.columns) and command.console is not None and not command.is_over:
                command.console.resize(*terminal_size(arguments.rows, arguments.columns))
            if arguments.chars:
                await feed_command(self.service, self._caller(ctx), command, arguments.chars, deadline)
            for_output = bool(arguments.chars) or command.is_terminal
            if arguments.wait_for is not None:
                for_output = arguments.wait_for == "output"
            await _wait_for(command, deadline, at if for_output else None)
            if arguments.chars and not command.is_over:
                await _wait_for(command, min(deadline, time.monotonic() + _SETTLE_SECONDS), None)
        except WorkspaceError as error:
            return refusal(error)
        return _reply(answer(command, at, arguments))

    @takes(KillArguments)
    async def kill_command(self, ctx: Context[Any, Any], arguments: KillArguments) -> RunReply:
        """End a command and all that it started. What it said can still be read."""
        try:
            command = self._find(ctx, arguments.command_id)
        except WorkspaceError as error:
            return refusal(error)
        at, commands = told_offsets(command), self.service.sandboxes.commands
        sent = await commands.kill(
            command, _SIGNALS[arguments.signal], arguments.wait_ms / 1000, arguments.kill_wait_ms / 1000
        )
        ended = {"killed": sent is not None and command.is_over, "evicted": False, "signal_sent": sent}
        return _reply({**answer(command, at, arguments), **ended, "status": _killed_status(command, sent)})

    async def kill_session(
        self, ctx: Context[Any, Any], session_id: Id, wait_ms: Wait = 5000, kill_wait_ms: Wait = 2000
    ) -> RunReply:
        """The older name of kill_command."""
        return await self.kill_command(ctx, command_id=session_id, wait_ms=wait_ms, kill_wait_ms=kill_wait_ms)

    async def read_output(
        self,
        ctx: Context[Any, Any],
        output_ref: Id,
        stream: Stream | None = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Bytes = 4096,
    ) -> RunReply:
        """Read what a command said, or output of a run that an answer cut, from byte offset on."""
        if output_ref.startswith(PREFIX):
            return self._run_page(ctx, output_ref, offset, limit)
        try:
            command_id, named = parse_reference(output_ref, stream)
            fields = page(self._find(ctx, command_id), named, offset, limit)
        except WorkspaceError as error:
            return refusal(error)
        return reply(fields, texts.read_output(fields))

    def _run_page(self, ctx: Context[Any, Any], handle: str, offset: int, limit: int) -> RunReply:
        page = read_page(self.service.sandboxes.engine.archive, handle, self._caller(ctx).share, offset, limit)
        if page is None:
            what, hint = not_kept(handle)
            return refusal(WorkspaceError("NOT_FOUND", what, hint=hint))
        return reply(page, page_text(page))

    async def _start(self, ctx: Context[Any, Any], arguments: CommandArguments) -> Command:
        """Start a command. While its environment is built, the client gets progress notifications if it wants any."""
        progress = None if arguments.environment is None else progress_for(ctx)
        if progress is None:
            return await start_command(self.service, self._caller(ctx), arguments)
        async with reporting(progress):
            return await start_command(self.service, self._caller(ctx), arguments, progress.add_step)

    def _caller(self, ctx: Context[Any, Any]) -> Caller:
        return caller_of(ctx, self.service.transport)

    def _find(self, ctx: Context[Any, Any], command_id: str) -> Command:
        return self.service.sandboxes.commands.get(command_id, self._caller(ctx).share)


async def _wait_for(command: Command, deadline: float, at: Mapping[Stream, int] | None) -> None:
    """Wait until a command has ended, the deadline, or, with ``at``, until there is output beyond these offsets."""
    while not command.is_over:
        if at is not None and any(output.whole > at[name] for name, output in command.outputs.items()):
            return
        if not await command.wait_changed(deadline - time.monotonic()):
            return


def _reply(fields: Fields) -> RunReply:
    return reply(fields, texts.command(fields))


def _killed_status(command: Command, sent: str | None) -> str:
    if not command.is_over:
        return "terminating"
    if sent is None or command.status == "exited":
        return "exited"
    return "killed" if "KILL" in sent else "terminated"


def _permission_request(error: WorkspaceError | Denied) -> Fields:
    if not isinstance(error, WorkspaceError) or error.code != "PERMISSION_REQUIRED":
        return {}
    request = {"tool_name": "exec_command", "permission": error.details.get("permission"), "status": "required"}
    reasons = error.details.get("reasons")
    pointed = [
        {"code": code, "severity": "error", "evidence": one["why"], "suggested_fix": one["instead"]}
        for one in (reasons if isinstance(reasons, list) else [])
        if isinstance(one, dict) and (code := _DIAGNOSED.get(str(one["permission"])))
    ]
    fields = {"permission_request": {**request, "retryable": error.retryable}}
    return {**fields, "diagnostics": pointed} if pointed else fields
