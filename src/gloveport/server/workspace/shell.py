"""The tools of commands, with the names and fields of coding-tools-mcp, and what a command needs a person for."""

import contextlib
import functools
import hashlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import BaseModel, ConfigDict, Field

from gloveport.engine.workspace import Wanted
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.model.workspace import RunCommand
from gloveport.policy.shell_text.gates import CommandRequest, command_action
from gloveport.policy.shell_text.variables import inherit_variables
from gloveport.server.disconnect import ended_with
from gloveport.server.pages import PREFIX, not_kept, page_text, read_page
from gloveport.server.workspace import texts
from gloveport.server.workspace.context import Bench
from gloveport.server.workspace.replies import Told, refusal, reply
from gloveport.workspace.commands.answers import Answer, Verbosity, answer, begun_at, page, parsed_reference
from gloveport.workspace.commands.command import Command, Stream
from gloveport.workspace.errors import WorkspaceError

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
Wait: TypeAlias = Annotated[int, Field(ge=0, le=30_000)]
Bytes: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)]
Variables: TypeAlias = Annotated[dict[str, str] | None, Field(max_length=200)]
Size: TypeAlias = Annotated[int | None, Field(ge=1, le=1000)]

_SETTLE_SECONDS: Final = 0.05
"""After what was written to a command has had an effect, the rest of that is waited for so long."""

_TERMINAL: Final = (24, 80)
_TERMINAL_KIND: Final = "xterm-256color"
_SIGNALS: Final = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "INT": signal.SIGINT}
_DIAGNOSED: Final[Mapping[str, str]] = {
    "network": "NETWORK_PERMISSION_REQUIRED",
    "shell_expansion": "SHELL_EXPANSION_PERMISSION_REQUIRED",
    "inline_script": "INLINE_SCRIPT_PERMISSION_REQUIRED",
    "sensitive_env": "SECRET_ENV_REJECTED",
}
"""Gates of which clients expect a diagnosis too."""


class CommandArguments(BaseModel):
    """What ``exec_command`` takes, and nothing else: what is not known here nobody has been shown."""

    model_config = ConfigDict(extra="forbid")

    cmd: Annotated[str, Field(min_length=1, max_length=1 << 20)]
    workdir: str = "."
    cwd: str | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 300_000
    yield_time_ms: Wait = 10_000
    max_output_bytes: Bytes = 65_536
    verbosity: Verbosity | None = None
    preview_bytes: Bytes = 4096
    stdin: str = ""
    keep_stdin: bool = False
    tty: bool = False
    rows: Size = None
    columns: Size = None
    env: Variables = None


@dataclass(frozen=True, kw_only=True)
class ShellTools:
    """The tools that work on commands; ``bench`` is what they share."""

    bench: Bench

    async def exec_command(  # noqa: PLR0913, PLR0917 - they are the tool's
        self,
        ctx: Context[Any, Any],
        cmd: Annotated[str, Field(min_length=1, max_length=1 << 20)],
        workdir: str = ".",
        cwd: str | None = None,
        timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 300_000,
        yield_time_ms: Wait = 10_000,
        max_output_bytes: Bytes = 65_536,
        verbosity: Verbosity | None = None,
        preview_bytes: Bytes = 4096,
        stdin: str = "",
        keep_stdin: bool = False,  # noqa: FBT001, FBT002 - the tool's
        tty: bool = False,  # noqa: FBT001, FBT002
        rows: Size = None,
        columns: Size = None,
        env: Variables = None,
    ) -> wire.CallToolResult:
        """Run a command of bash in the workspace, in a sandbox with nothing else of the host. After yield_time_ms it
        goes on, and write_stdin waits for it. tty gives it a terminal; keep_stdin lets write_stdin feed a pipe.
        """
        started = time.monotonic()
        asked = CommandArguments(
            cmd=cmd,
            workdir=workdir,
            cwd=cwd,
            timeout_ms=timeout_ms,
            stdin=stdin,
            keep_stdin=keep_stdin,
            tty=tty,
            env=env,
        )
        terminal = (rows or _TERMINAL[0], columns or _TERMINAL[1]) if tty else None
        try:
            command = await self._begun(ctx, asked, terminal)
            at = begun_at(command)
            try:
                keep: Literal["keep", "close"] = "keep" if tty or keep_stdin else "close"
                with contextlib.suppress(WorkspaceError):  # it is over, or has closed its input: the answer tells
                    await self.bench.workspace.commands.feed(command, stdin, until=started, then=keep)
                async with ended_with(ctx.request_context.request, command.scope):
                    await _until(command, started + yield_time_ms / 1000, at if tty else None)
            except BaseException:  # the call was given up: nobody knows of the command
                command.scope.cancel()
                raise
        except (WorkspaceError, Denied) as error:
            return refusal(error, {"status": "failed", **_permission_request(error)})
        told = answer(
            command, at, most_bytes=max_output_bytes, verbosity=verbosity or "full", preview_bytes=preview_bytes
        )
        return _reply({**told, "elapsed_ms": round(1000 * (time.monotonic() - started))})

    async def write_stdin(  # noqa: PLR0913, PLR0917
        self,
        ctx: Context[Any, Any],
        command_id: Id,
        chars: str = "",
        yield_time_ms: Wait = 10_000,
        max_output_bytes: Bytes = 65_536,
        verbosity: Verbosity | None = None,
        preview_bytes: Bytes = 4096,
        rows: Size = None,
        columns: Size = None,
    ) -> wire.CallToolResult:
        """Write to a command, or, with no chars, wait for what it says. Character 3 is Ctrl-C. rows and columns size
        its terminal.
        """
        try:
            command = self._found(ctx, command_id)
            at, deadline = begun_at(command), time.monotonic() + yield_time_ms / 1000
            if (rows or columns) and command.console is not None and not command.is_over:
                command.console.resize(rows or _TERMINAL[0], columns or _TERMINAL[1])
            if chars:
                self._record_fed(ctx, command, chars)
                await self.bench.workspace.commands.feed(command, chars, until=deadline)
            await _until(command, deadline, at)
            if chars and not command.is_over:
                await _until(command, min(deadline, time.monotonic() + _SETTLE_SECONDS), None)
        except WorkspaceError as error:
            return refusal(error)
        return _reply(
            answer(command, at, most_bytes=max_output_bytes, verbosity=verbosity or "full", preview_bytes=preview_bytes)
        )

    async def kill_command(
        self,
        ctx: Context[Any, Any],
        command_id: Id,
        signal: Literal["TERM", "KILL", "INT"] = "TERM",
        wait_ms: Wait = 5000,
        kill_wait_ms: Wait = 2000,
        max_output_bytes: Bytes = 65_536,
        verbosity: Verbosity | None = None,
        preview_bytes: Bytes = 4096,
    ) -> wire.CallToolResult:
        """End a command and all that it started. What it said can still be read."""
        try:
            command = self._found(ctx, command_id)
        except WorkspaceError as error:
            return refusal(error)
        at = begun_at(command)
        sent = await self.bench.workspace.commands.kill(command, _SIGNALS[signal], wait_ms / 1000, kill_wait_ms / 1000)
        told = answer(
            command, at, most_bytes=max_output_bytes, verbosity=verbosity or "full", preview_bytes=preview_bytes
        )
        told |= {"killed": sent is not None and command.is_over, "evicted": False, "signal_sent": sent}
        told["status"] = _killed_status(command, sent)
        return _reply(told)

    async def kill_session(
        self, ctx: Context[Any, Any], session_id: Id, wait_ms: Wait = 5000, kill_wait_ms: Wait = 2000
    ) -> wire.CallToolResult:
        """The older name of kill_command."""
        return await self.kill_command(ctx, session_id, wait_ms=wait_ms, kill_wait_ms=kill_wait_ms)

    async def read_output(
        self,
        ctx: Context[Any, Any],
        output_ref: Id,
        stream: Stream | None = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Bytes = 4096,
    ) -> wire.CallToolResult:
        """Read what a command said, or output of a run that an answer cut, from byte offset on."""
        if output_ref.startswith(PREFIX):
            return self._run_page(output_ref, offset, limit)
        try:
            command_id, named = parsed_reference(output_ref, stream)
            told = page(self._found(ctx, command_id), named, offset, limit)
        except WorkspaceError as error:
            return refusal(error)
        return reply(told, texts.read_output(told))

    def _run_page(self, handle: str, offset: int, limit: int) -> wire.CallToolResult:
        page = read_page(self.bench.workspace.engine.archive, handle, offset, limit)
        if page is None:
            what, hint = not_kept(handle)
            return refusal(WorkspaceError("NOT_FOUND", what, hint=hint))
        return reply(page, page_text(page))

    def _record_fed(self, ctx: Context[Any, Any], command: Command, chars: str) -> None:
        """Write down that a command is given something to read, before it is.

        Raises:
            AuditError: It can't be written down.
        """
        (size, digest), caller = _measured(chars), self.bench.caller(ctx)
        self.bench.workspace.engine.audit.append(
            "command.fed",
            {"caller": caller.name, "run": self.bench.runs[command], "bytes": size, "sha256": digest},
        )

    def _found(self, ctx: Context[Any, Any], command_id: str) -> Command:
        return self.bench.workspace.commands.find(command_id, self.bench.caller(ctx).share)

    async def _begun(
        self, ctx: Context[Any, Any], asked: CommandArguments, terminal: tuple[int, int] | None
    ) -> Command:
        caller = self.bench.caller(ctx)
        action, seconds = await self.action(asked)
        run_id = f"command-{os.urandom(8).hex()}"
        guard = await self.bench.guarded(caller, action, run_id)
        variables = inherit_variables(self.bench.config.workspace, os.environ)
        if terminal is not None:  # it is ours, whichever the server may have
            variables["TERM"] = _TERMINAL_KIND
        variables |= asked.env or {}
        wanted = Wanted(action=action, variables=variables, seconds=seconds, terminal=terminal)
        execute = functools.partial(self.bench.workspace.execute, wanted, guard)
        command = await self.bench.workspace.commands.begin(caller.share, execute, is_terminal=asked.tty)
        self.bench.runs[command] = run_id
        return command

    async def action(self, asked: CommandArguments) -> tuple[RunCommand, float]:
        """What is asked for, as an action, and for how many seconds.

        Raises:
            WorkspaceError: INVALID_ARGUMENT, or as ``Tree.directory``.
        """
        if asked.cwd is not None and asked.workdir not in {".", asked.cwd}:
            raise WorkspaceError("INVALID_ARGUMENT", "workdir and cwd are the same, and were given differently")
        env = asked.env or {}
        if any("\0" in word for word in (asked.cmd, *env, *env.values())) or any("=" in name for name in env):
            raise WorkspaceError("INVALID_ARGUMENT", "a command and its variables hold no NUL, a variable's name no =")
        settings = self.bench.config.workspace
        workdir = await to_thread.run_sync(self._directory, asked.cwd or asked.workdir)
        seconds = min(asked.timeout_ms / 1000, settings.limits.wall_seconds)
        root = self.bench.workspace.target
        wanted = CommandRequest(
            command=asked.cmd, root=root, workdir=workdir, seconds=seconds, tty=asked.tty, env=env, stdin=asked.stdin
        )
        size, digest = _measured(asked.stdin)
        read = {"stdin_bytes": size, "stdin_sha256": digest, "keeps_stdin": asked.tty or asked.keep_stdin}
        size = len(wanted.command) + len(wanted.stdin)
        action = await compute(size, command_action, settings, wanted)
        return action.model_copy(update=read), seconds

    def _directory(self, path: str) -> str:
        with self.bench.tree.directory(path) as opened:
            return opened.path


async def _until(command: Command, deadline: float, at: Mapping[Stream, int] | None) -> None:
    """Wait until a command is over, until then, or, with ``at``, until it has said more than that."""
    while not command.is_over:
        if at is not None and any(heard.whole > at[name] for name, heard in command.heard.items()):
            return
        if not await command.stirs(deadline - time.monotonic()):
            return


def _measured(text: str) -> tuple[int, str]:
    """Size and digest of what a command reads; no digest where that is nothing."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data), hashlib.sha256(data).hexdigest() if data else ""


def _reply(told: Answer) -> wire.CallToolResult:
    return reply(told, texts.command(told))


def _killed_status(command: Command, sent: str | None) -> str:
    if not command.is_over:
        return "terminating"
    if sent is None or command.status == "exited":
        return "exited"
    return "killed" if "KILL" in sent else "terminated"


def _permission_request(error: WorkspaceError | Denied) -> Told:
    if not isinstance(error, WorkspaceError) or error.code != "PERMISSION_REQUIRED":
        return {}
    asked = {"tool_name": "exec_command", "permission": error.details.get("permission"), "status": "required"}
    reasons = error.details.get("reasons")
    pointed = [
        {"code": code, "severity": "error", "evidence": one["why"], "suggested_fix": one["instead"]}
        for one in (reasons if isinstance(reasons, list) else [])
        if isinstance(one, dict) and (code := _DIAGNOSED.get(str(one["permission"])))
    ]
    told = {"permission_request": {**asked, "retryable": error.retryable}}
    return {**told, "diagnostics": pointed} if pointed else told
