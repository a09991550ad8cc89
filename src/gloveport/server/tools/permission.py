"""The tool ``request_permissions``: asks the owner to permit a call at a gate, in the client or by the queue."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from mcp.server.mcpserver import Context
from msgspec import Struct, field
from pydantic import Field, JsonValue, ValidationError

from gloveport.approvals.question import Verdict
from gloveport.engine.runs import Run
from gloveport.errors import Denied
from gloveport.fairness import choose_forgotten
from gloveport.limits.untrusted_json import first_faults
from gloveport.model.reading import read_value
from gloveport.model.workspace import Gate, RunCommand, WriteFiles
from gloveport.policy.decisions.gate_decisions import open_needs
from gloveport.policy.decisions.modes import stance
from gloveport.policy.decisions.subjects import permission_subject
from gloveport.server.fast_path import without_nulls
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import refusal, reply
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.elicitation import Attendance, State
from gloveport.server.tools.write_tools import ChangesArguments, EditArguments, PatchArguments
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_WRITES
from gloveport.workspace_service.approval_text import command_detail, question_text, write_detail
from gloveport.workspace_service.command_requests import CommandArguments, make_command_action
from gloveport.workspace_service.permissions import GrantScope, PermissionRequest, Permit
from gloveport.workspace_service.service import WorkspaceService
from gloveport.workspace_service.write_actions import (
    changes_action,
    changes_text,
    demand_unprotected,
    patch_action,
    replacement_action,
    replacement_text,
)

Target: TypeAlias = Literal["exec_command", "edit_file", "apply_patch", "apply_changes"]
_Status: TypeAlias = Literal["granted", "denied", "waiting", "unsupported"]
_WAIT_SECONDS: Final = 50.0
_MOST_ASKING: Final = 64


class _PlannedCall(Struct, frozen=True, kw_only=True):
    """The call to be permitted: its action, and its details for the person who is asked."""

    action: RunCommand | WriteFiles
    detail: Callable[[], str]


class _PendingRequest(Struct, eq=False, kw_only=True):
    """A run that asks. ``permit``: the one permit that came of it, however many calls have waited for it."""

    run: Run
    request: PermissionRequest
    permit: Permit | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the answer has expired before any call came back for it."""
        return self.run.is_over and time.monotonic() - self.run.ended > self.request.seconds


class PermissionTool(Struct, frozen=True, kw_only=True):
    """The tool that asks."""

    service: WorkspaceService
    _pending: dict[str, _PendingRequest] = field(default_factory=dict)
    """Pending requests by the ids of their runs."""

    async def request_permissions(
        self,
        ctx: Context[Any, Any],
        tool_name: Target,
        permission: Gate,
        reason: Annotated[str, Field(min_length=1, max_length=2000)],
        arguments: dict[str, Any],
        scope: GrantScope = "once",
        ttl_seconds: Annotated[int, Field(ge=1, le=3600)] = 300,
    ) -> RunReply | wire.InputRequiredResult:
        """Ask the owner to permit a call that was refused with PERMISSION_REQUIRED: the same tool and arguments. If no
        answer is there yet, call this again.
        """
        caller = caller_of(ctx, self.service.transport)
        if ctx.request_state is not None:
            state = State.read(ctx.request_state)
            pending = self._pending.get(state.run_id)
            if pending is None or pending.request.owner != caller.share:
                return refusal(WorkspaceError("NOT_FOUND", "nothing is asked for under this name any more"))
            return await self._attend(ctx, pending, state)
        return await self.ask(ctx, tool_name, permission, arguments, reason=reason, scope=scope, seconds=ttl_seconds)

    async def ask(
        self,
        ctx: Context[Any, Any],
        tool_name: Target,
        permission: Gate,
        arguments: dict[str, Any],
        *,
        reason: str = "",
        scope: GrantScope = "once",
        seconds: int = 300,
    ) -> RunReply | wire.InputRequiredResult:
        """Make a request for a permission, or wait for the pending one, and return its outcome."""
        caller = caller_of(ctx, self.service.transport)
        try:
            call = await self._plan(caller.share, tool_name, arguments)
        except (WorkspaceError, ValidationError) as error:
            return refusal(error if isinstance(error, WorkspaceError) else _invalid(error))
        request = PermissionRequest(
            owner=caller.share,
            caller=caller.name,
            session=caller.session,
            gate=permission,
            subject=permission_subject(permission, call.action),
            scope=scope,
            seconds=seconds,
        )
        if permission not in {need.gate for need in open_needs(self.service.settings, call.action.needs)}:
            return _outcome(request, "granted", "It needs no such permission.")
        if refused := self._refuse_unasked(request, call):
            return refused
        if permit := self._find_permit(request):
            return _outcome(request, "granted", "It is permitted already.", permit)
        try:
            pending = self._find_pending(request) or self._start_asking(request, call, reason)
        except Denied as denial:
            self.service.permissions.deny(request, denial.code)
            return _denial_reply(denial)
        state = None if ctx.request_state is None else State.read(ctx.request_state)
        return await self._attend(ctx, pending, state if state and state.run_id == pending.run.id else None)

    def _refuse_unasked(self, request: PermissionRequest, call: _PlannedCall) -> RunReply | None:
        """Refuse a request without asking, where nobody could permit it; None if somebody may."""
        action = call.action
        if stance(self.service.settings, request.gate) == "deny":
            return self._deny(request, "policy", "Nobody can permit it here.")
        if request.gate == "network" and isinstance(action, RunCommand):
            unreachable = self.service.explain_unreachable(action)
            if unreachable is not None:
                return self._deny(request, "not granted", unreachable)
        if not self.service.permissions.desk.channels:
            return self._deny(request, "nobody to ask", "There is nobody who could be asked.", "unsupported")
        return None

    def _deny(self, request: PermissionRequest, why: str, message: str, status: _Status = "denied") -> RunReply:
        self.service.permissions.deny(request, why)
        return _outcome(request, status, message)

    def _find_permit(self, request: PermissionRequest) -> Permit | None:
        """Find a permit that covers this request and its scope."""
        permits = [
            one for one in self.service.permissions.permits_of(request.owner) if one.request.subject == request.subject
        ]
        return next((one for one in permits if one.scope in {request.scope, "session"}), None)

    def _find_pending(self, request: PermissionRequest) -> _PendingRequest | None:
        for pending in [*self._pending.values()]:
            if (pending.request.owner, pending.request.subject) == (request.owner, request.subject):
                if not pending.is_stale:
                    return pending
                del self._pending[pending.run.id]
        return None

    def _start_asking(self, request: PermissionRequest, call: _PlannedCall, reason: str) -> _PendingRequest:
        work = partial(
            self.service.permissions.ask,
            request=request,
            text=question_text([request.gate], call.action, reason),
            detail=call.detail(),
        )
        if len(self._pending) >= _MOST_ASKING:
            requests = [(run_id, one.request.owner, 1) for run_id, one in self._pending.items()]
            self._pending.pop(choose_forgotten(requests)).run.cancel()
        pending = _PendingRequest(
            run=self.service.sandboxes.engine.runs.begin(request.owner, "shell", work), request=request
        )
        self._pending[pending.run.id] = pending
        return pending

    async def _attend(
        self, ctx: Context[Any, Any], pending: _PendingRequest, state: State | None = None
    ) -> RunReply | wire.InputRequiredResult:
        run, request = pending.run, pending.request
        run.handed_out = True  # the run outlives this request, for an answer through the queue may take long
        desk = self.service.permissions.desk
        needed = await Attendance(ctx=ctx, run=run, desk=desk, state=state).attend(_WAIT_SECONDS)
        if needed is not None:
            return needed
        if not run.is_over:
            ids = " ".join(one.id for one in desk.pending(run.id))
            return _outcome(
                request,
                "waiting",
                f"The owner has to say: gloveport approvals approve {ids}. Tell them, then call this again.",
            )
        self._pending.pop(run.id, None)
        if isinstance(run.failure, Denied):
            return _denial_reply(run.failure)
        if run.failure is not None:
            raise run.failure
        if run.result is None:
            return _outcome(request, "denied", "The question was withdrawn.")
        verdict = read_value(Verdict, run.result.value)
        if not verdict.allowed:
            return _outcome(request, "denied", f"The owner has not permitted it ({verdict.by}).")
        pending.permit = pending.permit or self.service.permissions.grant(request, verdict, run.id)
        words = f"Call the tool again within {request.seconds:g} s; scope {pending.permit.scope}."
        return _outcome(request, "granted", words, pending.permit)

    async def _plan(self, share: str, tool: Target, arguments: Mapping[str, Any]) -> _PlannedCall:
        """Make the action of a call without doing it.

        Raises:
            WorkspaceError, ValidationError: The arguments are wrong, or nobody can permit the call.
        """
        arguments, tree = without_nulls(arguments), self.service.tree
        if tool == "exec_command":
            command_arguments = CommandArguments.model_validate(arguments)
            if command_arguments.session is not None:
                raise WorkspaceError(
                    "INVALID_ARGUMENT",
                    "in a session nobody can permit a command: earlier ones may have given it another meaning",
                    hint="make the call without session, and ask for that",
                )
            command, _ = await make_command_action(self.service, share, command_arguments)
            return _PlannedCall(
                action=command,
                detail=partial(command_detail, command, command_arguments.env or {}, command_arguments.stdin),
            )
        make: Callable[[], WriteFiles]
        text: Callable[[], str]
        if tool == "apply_patch":
            patch = PatchArguments.model_validate(arguments).patch
            make, text = partial(patch_action, tree, patch), partial(str, patch)
        elif tool == "edit_file":
            edit = EditArguments.model_validate(arguments)
            make, text = partial(replacement_action, tree, edit), partial(replacement_text, edit)
        else:
            changes = ChangesArguments.model_validate(arguments).changes
            make, text = partial(changes_action, tree, changes), partial(changes_text, changes)
        write = await FILE_WRITES.run(share, make)
        await FILE_WRITES.run(share, demand_unprotected, tree, write)
        return _PlannedCall(action=write, detail=lambda: write_detail(write, text()))


def _outcome(request: PermissionRequest, status: _Status, message: str, permit: Permit | None = None) -> RunReply:
    """Make the answer to a request; a refusal also has the fields of every refusal."""
    expires = datetime.now(UTC) + timedelta(seconds=permit.seconds_left if permit else 0)
    scope = permit.scope if permit else request.scope
    fields: dict[str, JsonValue] = {
        "status": status,
        "message": message,
        "grant_id": permit.id if permit else None,
        "expires_at": expires.isoformat(timespec="seconds") if permit else None,
        "constraints": {"permission": request.gate, "scope": scope, "subject": request.subject},
        "warnings": [],
    }
    if status == "waiting":  # models take ``ok`` for a permission
        fields = {"ok": False, **fields}
    if status in {"granted", "waiting"}:
        return reply(fields, texts.permission(fields))
    code = "ELICITATION_UNSUPPORTED" if status == "unsupported" else "PERMISSION_REQUIRED"
    return refusal(
        WorkspaceError(code, message, hint="do it another way", details={"permission": request.gate}), fields
    )


def _denial_reply(denial: Denied) -> RunReply:
    return refusal(denial, {"status": "denied", "grant_id": None, "expires_at": None})


def _invalid(error: ValidationError) -> WorkspaceError:
    (first,) = first_faults(error)
    where = ".".join(map(str, first["loc"]))
    return WorkspaceError("INVALID_ARGUMENT", f"arguments.{where}: {first['msg']}")
