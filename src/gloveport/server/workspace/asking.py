"""``request_permissions``: the owner is asked whether something may pass a gate, in their client or in the queue."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from gloveport.approvals.question import Verdict
from gloveport.engine.runs import Run
from gloveport.errors import Denied, WorkspaceError
from gloveport.model.workspace import Gate, RunCommand, WriteFiles
from gloveport.policy.gates import open_needs, write_action
from gloveport.policy.modes import stance
from gloveport.policy.subjects import permission_subject
from gloveport.server.attend import Attendance, State
from gloveport.server.caller import Caller
from gloveport.server.workspace import texts
from gloveport.server.workspace.bench import Bench
from gloveport.server.workspace.permissions import GrantScope, Permit, detail, question
from gloveport.server.workspace.replies import refusal, reply
from gloveport.server.workspace.shell import CommandArguments, ShellTools
from gloveport.server.workspace.writing import changed, patched
from gloveport.workspace.ignoring import ignored_among
from gloveport.workspace.patch.edits import Change

Target: TypeAlias = Literal["exec_command", "apply_patch", "apply_changes"]
_Status: TypeAlias = Literal["granted", "denied", "waiting", "unsupported"]
_WAIT_SECONDS: Final = 50.0
_MOST_ASKING: Final = 64
_CHANGES: Final = TypeAdapter(list[Change])


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """One request for a permission."""

    owner: str
    gate: Gate
    subject: str
    scope: GrantScope
    seconds: float


@dataclass(eq=False, kw_only=True)
class _Asking:
    """A run that asks. ``permit``: what came of it, once, however many calls have waited for it."""

    run: Run
    asked: _Asked
    permit: Permit | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the answer came so long ago that it holds no more, though nobody has come for it."""
        return self.run.is_over and time.monotonic() - self.run.ended > self.asked.seconds


@dataclass(frozen=True, kw_only=True)
class AskingTools:
    """The tool that asks; ``shell`` knows what a command is."""

    bench: Bench
    shell: ShellTools
    _asking: dict[str, _Asking] = field(default_factory=dict)
    """Runs that ask, by their ids."""

    async def request_permissions(  # noqa: PLR0911 - they are the tool's
        self,
        ctx: Context[Any, Any],
        tool_name: Target,
        permission: Gate,
        reason: Annotated[str, Field(min_length=1, max_length=2000)],
        arguments: dict[str, Any],
        scope: GrantScope = "once",
        ttl_seconds: Annotated[int, Field(ge=1, le=3600)] = 300,
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Ask the owner to permit a call that was refused with PERMISSION_REQUIRED: the same tool and arguments. If no
        answer is there yet, call this again.
        """
        caller = self.bench.caller(ctx)
        if ctx.request_state is not None:
            state = State.read(ctx.request_state)
            known = self._asking.get(state.run_id)
            if known is None or known.asked.owner != caller.share:
                return refusal(WorkspaceError("NOT_FOUND", "nothing is asked for under this name any more"))
            return await self._attended(ctx, known, state)
        try:
            action = await self._action(tool_name, arguments)
        except (WorkspaceError, ValidationError) as error:
            return refusal(error if isinstance(error, WorkspaceError) else _invalid(error))
        asked = _Asked(
            owner=caller.share,
            gate=permission,
            subject=permission_subject(permission, action),
            scope=scope,
            seconds=ttl_seconds,
        )
        policy = self.bench.config.workspace
        if permission not in {need.gate for need in open_needs(policy, action.needs)}:
            return _told(asked, "granted", "It needs no such permission.")
        if stance(policy, permission) == "deny":
            return _told(asked, "denied", "Nobody can permit it here.")
        if not self.bench.permissions.desk.channels:
            return _told(asked, "unsupported", "There is nobody who could be asked.")
        if permit := self._held(asked):
            return _told(asked, "granted", "It is permitted already.", permit)
        try:
            asking = self._known(asked) or self._begun(asked, action, reason, caller)
        except Denied as denial:
            return _refused(denial)
        return await self._attended(ctx, asking)

    def _held(self, asked: _Asked) -> Permit | None:
        """A permission that holds for this, and for as long."""
        held = [one for one in self.bench.permissions.held(asked.owner) if one.subject == asked.subject]
        return next((one for one in held if one.scope in {asked.scope, "session"}), None)

    def _known(self, asked: _Asked) -> _Asking | None:
        """The run that asks for this already."""
        for asking in [*self._asking.values()]:
            if (asking.asked.owner, asking.asked.subject) == (asked.owner, asked.subject):
                if not asking.is_stale:
                    return asking
                del self._asking[asking.run.id]
        return None

    def _begun(self, asked: _Asked, action: RunCommand | WriteFiles, reason: str, caller: Caller) -> _Asking:
        work = partial(
            self.bench.permissions.ask,
            text=question([asked.gate], action, reason),
            subject=asked.subject,
            caller=caller.name,
            session=caller.session,
            detail=detail(action),
        )
        if len(self._asking) >= _MOST_ASKING:
            self._asking.pop(next(iter(self._asking))).run.cancel()
        asking = _Asking(run=self.bench.workspace.engine.runs.begin(caller.share, "shell", work), asked=asked)
        self._asking[asking.run.id] = asking
        return asking

    async def _attended(
        self, ctx: Context[Any, Any], asking: _Asking, state: State | None = None
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        run, asked = asking.run, asking.asked
        run.handed_out = True  # it goes on when the request is over: the queue is for those who take their time
        desk = self.bench.permissions.desk
        needed = await Attendance(ctx=ctx, run=run, desk=desk, state=state).attend(_WAIT_SECONDS)
        if needed is not None:
            return needed
        if not run.is_over:
            ids = " ".join(one.id for one in desk.pending(run.id))
            return _told(
                asked,
                "waiting",
                f"The owner has to say: gloveport approvals approve {ids}. Tell them, then call this again.",
            )
        self._asking.pop(run.id, None)
        if isinstance(run.failure, Denied):
            return _refused(run.failure)
        if run.failure is not None:
            raise run.failure
        if run.result is None:
            return _told(asked, "denied", "The question was withdrawn.")
        verdict = Verdict.model_validate(run.result.value)
        if not verdict.allowed:
            return _told(asked, "denied", f"The owner has not permitted it ({verdict.by}).")
        asking.permit = asking.permit or self.bench.permissions.grant(
            asked.owner, asked.gate, asked.subject, verdict, scope=asked.scope, seconds=asked.seconds, run=run.id
        )
        words = f"Call the tool again within {asked.seconds:g} s; scope {asking.permit.scope}."
        return _told(asked, "granted", words, asking.permit)

    async def _action(self, tool: Target, arguments: Mapping[str, Any]) -> RunCommand | WriteFiles:
        """What would be done.

        Raises:
            WorkspaceError, ValidationError: The arguments are not that tool's.
        """
        if tool == "exec_command":
            return (await self.shell.action(CommandArguments.model_validate(arguments)))[0]
        if tool == "apply_patch":
            changes = patched(str(arguments.get("patch", "")))
        else:
            changes = changed(_CHANGES.validate_python(arguments.get("changes")))
        ignored = await to_thread.run_sync(ignored_among, self.bench.tree, [change.path for change in changes])
        return write_action(changes, ignored)


def _told(asked: _Asked, status: _Status, message: str, permit: Permit | None = None) -> wire.CallToolResult:
    """What became of a request. A refusal has the shape of every refusal, besides."""
    expires = datetime.now(UTC) + timedelta(seconds=permit.expires - time.monotonic() if permit else 0)
    scope = permit.scope if permit else asked.scope
    told: dict[str, JsonValue] = {
        "status": status,
        "message": message,
        "grant_id": permit.id if permit else None,
        "expires_at": expires.isoformat(timespec="seconds") if permit else None,
        "constraints": {"permission": asked.gate, "scope": scope, "subject": asked.subject},
        "warnings": [],
    }
    if status in {"granted", "waiting"}:
        return reply(told, texts.permission(told))
    code = "ELICITATION_UNSUPPORTED" if status == "unsupported" else "PERMISSION_REQUIRED"
    return refusal(WorkspaceError(code, message, hint="do it another way", details={"permission": asked.gate}), told)


def _refused(denial: Denied) -> wire.CallToolResult:
    return refusal(denial, {"status": "denied", "grant_id": None, "expires_at": None})


def _invalid(error: ValidationError) -> WorkspaceError:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return WorkspaceError("INVALID_ARGUMENT", f"arguments.{where}: {first['msg']}")
