"""``request_permissions``: the owner is asked whether something may pass a gate, in their client or in the queue."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from gloveport.approvals.question import Verdict
from gloveport.engine.runs import Run
from gloveport.errors import Denied
from gloveport.limits.faults import first_faults
from gloveport.model.workspace import Gate, RunCommand, WriteFiles
from gloveport.policy.gates import open_needs
from gloveport.policy.modes import stance
from gloveport.policy.subjects import permission_subject
from gloveport.server.arguments import without_nulls
from gloveport.server.elicitation import Attendance, State
from gloveport.server.workspace import texts
from gloveport.server.workspace.context import Bench
from gloveport.server.workspace.permissions import GrantScope, Permit, Wish, command_detail, question, write_detail
from gloveport.server.workspace.replies import refusal, reply
from gloveport.server.workspace.shell import CommandArguments, ShellTools
from gloveport.server.workspace.writing import Key, Text, changes_action, patch_action, written_out
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.parsing import MAX_CHANGES, Change

Target: TypeAlias = Literal["exec_command", "apply_patch", "apply_changes"]
_Status: TypeAlias = Literal["granted", "denied", "waiting", "unsupported"]
_WAIT_SECONDS: Final = 50.0
_MOST_ASKING: Final = 64


class _PatchArguments(BaseModel):
    """What ``apply_patch`` takes."""

    model_config = ConfigDict(extra="forbid")

    patch: Text
    dry_run: bool = False
    idempotency_key: Key = None


class _ChangesArguments(BaseModel):
    """What ``apply_changes`` takes."""

    model_config = ConfigDict(extra="forbid")

    changes: Annotated[list[Change], Field(max_length=MAX_CHANGES)]
    dry_run: bool = False
    idempotency_key: Key = None


@dataclass(frozen=True, kw_only=True)
class _Call:
    """The call that is asked about: what it would do, and what a person is shown of it."""

    action: RunCommand | WriteFiles
    detail: Callable[[], str]


@dataclass(eq=False, kw_only=True)
class _Asking:
    """A run that asks. ``permit``: what came of it, once, however many calls have waited for it."""

    run: Run
    wish: Wish
    permit: Permit | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the answer came so long ago that it holds no more, though nobody has come for it."""
        return self.run.is_over and time.monotonic() - self.run.ended > self.wish.seconds


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
            if known is None or known.wish.owner != caller.share:
                return refusal(WorkspaceError("NOT_FOUND", "nothing is asked for under this name any more"))
            return await self._attended(ctx, known, state)
        try:
            call = await self._call(tool_name, arguments)
        except (WorkspaceError, ValidationError) as error:
            return refusal(error if isinstance(error, WorkspaceError) else _invalid(error))
        wish = Wish(
            owner=caller.share,
            caller=caller.name,
            session=caller.session,
            gate=permission,
            subject=permission_subject(permission, call.action),
            scope=scope,
            seconds=ttl_seconds,
        )
        policy = self.bench.config.workspace
        if permission not in {need.gate for need in open_needs(policy, call.action.needs)}:
            return _told(wish, "granted", "It needs no such permission.")
        if stance(policy, permission) == "deny":
            self.bench.permissions.deny(wish, "policy")
            return _told(wish, "denied", "Nobody can permit it here.")
        if not self.bench.permissions.desk.channels:
            self.bench.permissions.deny(wish, "nobody to ask")
            return _told(wish, "unsupported", "There is nobody who could be asked.")
        if permit := self._held(wish):
            return _told(wish, "granted", "It is permitted already.", permit)
        try:
            asking = self._known(wish) or self._begun(wish, call, reason)
        except Denied as denial:
            self.bench.permissions.deny(wish, denial.code)
            return _refused(denial)
        return await self._attended(ctx, asking)

    def _held(self, wish: Wish) -> Permit | None:
        """A permission that holds for this, and for as long."""
        held = [one for one in self.bench.permissions.held(wish.owner) if one.subject == wish.subject]
        return next((one for one in held if one.scope in {wish.scope, "session"}), None)

    def _known(self, wish: Wish) -> _Asking | None:
        """The run that asks for this already."""
        for asking in [*self._asking.values()]:
            if (asking.wish.owner, asking.wish.subject) == (wish.owner, wish.subject):
                if not asking.is_stale:
                    return asking
                del self._asking[asking.run.id]
        return None

    def _begun(self, wish: Wish, call: _Call, reason: str) -> _Asking:
        work = partial(
            self.bench.permissions.ask,
            wish=wish,
            text=question([wish.gate], call.action, reason),
            detail=call.detail(),
        )
        if len(self._asking) >= _MOST_ASKING:
            self._asking.pop(next(iter(self._asking))).run.cancel()
        asking = _Asking(run=self.bench.workspace.engine.runs.begin(wish.owner, "shell", work), wish=wish)
        self._asking[asking.run.id] = asking
        return asking

    async def _attended(
        self, ctx: Context[Any, Any], asking: _Asking, state: State | None = None
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        run, wish = asking.run, asking.wish
        run.handed_out = True  # it goes on when the request is over: the queue is for those who take their time
        desk = self.bench.permissions.desk
        needed = await Attendance(ctx=ctx, run=run, desk=desk, state=state).attend(_WAIT_SECONDS)
        if needed is not None:
            return needed
        if not run.is_over:
            ids = " ".join(one.id for one in desk.pending(run.id))
            return _told(
                wish,
                "waiting",
                f"The owner has to say: gloveport approvals approve {ids}. Tell them, then call this again.",
            )
        self._asking.pop(run.id, None)
        if isinstance(run.failure, Denied):
            return _refused(run.failure)
        if run.failure is not None:
            raise run.failure
        if run.result is None:
            return _told(wish, "denied", "The question was withdrawn.")
        verdict = Verdict.model_validate(run.result.value)
        if not verdict.allowed:
            return _told(wish, "denied", f"The owner has not permitted it ({verdict.by}).")
        asking.permit = asking.permit or self.bench.permissions.grant(wish, verdict, run.id)
        words = f"Call the tool again within {wish.seconds:g} s; scope {asking.permit.scope}."
        return _told(wish, "granted", words, asking.permit)

    async def _call(self, tool: Target, arguments: Mapping[str, Any]) -> _Call:
        """What would be done.

        Raises:
            WorkspaceError, ValidationError: The arguments are not that tool's.
        """
        arguments = without_nulls(arguments)
        if tool == "exec_command":
            asked = CommandArguments.model_validate(arguments)
            command, _ = await self.shell.action(asked)
            return _Call(action=command, detail=partial(command_detail, command, asked.env or {}, asked.stdin))
        if tool == "apply_patch":
            patch = _PatchArguments.model_validate(arguments).patch
            write = await to_thread.run_sync(patch_action, self.bench.tree, patch)
            return _Call(action=write, detail=partial(write_detail, write, patch))
        changes = _ChangesArguments.model_validate(arguments).changes
        write = await to_thread.run_sync(changes_action, self.bench.tree, changes)
        return _Call(action=write, detail=lambda: write_detail(write, written_out(changes)))


def _told(wish: Wish, status: _Status, message: str, permit: Permit | None = None) -> wire.CallToolResult:
    """What became of a request. A refusal has the shape of every refusal, besides."""
    expires = datetime.now(UTC) + timedelta(seconds=permit.expires - time.monotonic() if permit else 0)
    scope = permit.scope if permit else wish.scope
    told: dict[str, JsonValue] = {
        "status": status,
        "message": message,
        "grant_id": permit.id if permit else None,
        "expires_at": expires.isoformat(timespec="seconds") if permit else None,
        "constraints": {"permission": wish.gate, "scope": scope, "subject": wish.subject},
        "warnings": [],
    }
    if status in {"granted", "waiting"}:
        return reply(told, texts.permission(told))
    code = "ELICITATION_UNSUPPORTED" if status == "unsupported" else "PERMISSION_REQUIRED"
    return refusal(WorkspaceError(code, message, hint="do it another way", details={"permission": wish.gate}), told)


def _refused(denial: Denied) -> wire.CallToolResult:
    return refusal(denial, {"status": "denied", "grant_id": None, "expires_at": None})


def _invalid(error: ValidationError) -> WorkspaceError:
    (first,) = first_faults(error)
    where = ".".join(map(str, first["loc"]))
    return WorkspaceError("INVALID_ARGUMENT", f"arguments.{where}: {first['msg']}")
