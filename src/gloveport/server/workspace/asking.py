"""``request_permissions``: the owner is asked whether something may pass a gate, in their client or in the queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue, ValidationError

from gloveport.approvals.question import Verdict
from gloveport.engine.runs import Run
from gloveport.errors import Denied, WorkspaceError
from gloveport.model.workspace import Change as PathChange
from gloveport.model.workspace import Gate, RunCommand, WriteFiles
from gloveport.policy.gates import open_needs, write_action
from gloveport.policy.modes import stance
from gloveport.policy.subjects import permission_subject
from gloveport.server.attend import Attendance, State
from gloveport.server.workspace import texts
from gloveport.server.workspace.bench import Bench
from gloveport.server.workspace.permissions import GrantScope, detail, question
from gloveport.server.workspace.replies import refusal, reply
from gloveport.server.workspace.shell import CommandArguments, ShellTools
from gloveport.server.workspace.tools import patched
from gloveport.workspace.ignoring import ignored_among

Target: TypeAlias = Literal["exec_command", "apply_patch", "apply_changes"]
_WAIT_SECONDS: Final = 50.0
_MOST_ASKING: Final = 64


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """One request for a permission."""

    owner: str
    gate: Gate
    subject: str
    scope: GrantScope
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AskingTools:
    """The tool that asks; ``shell`` knows what a command is."""

    bench: Bench
    shell: ShellTools
    _asking: dict[str, tuple[Run, _Asked]] = field(default_factory=dict)
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
            if known is None or known[1].owner != caller.share:
                return refusal(WorkspaceError("NOT_FOUND", "nothing is asked for under this name any more"))
            return await self._attended(ctx, *known, state)
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
            return _told(asked, "granted", "It needs no such permission.", None)
        if stance(policy, permission) == "deny":
            return _told(asked, "denied", "Nobody can permit it here.", None)
        for run, other in self._asking.values():
            if (other.owner, other.subject) == (asked.owner, asked.subject):
                return await self._attended(ctx, run, other)
        work = partial(
            self.bench.permissions.ask,
            text=question([permission], action, reason),
            subject=asked.subject,
            caller=caller.name,
            session=caller.session,
            detail=detail(action),
        )
        run = self.bench.workspace.engine.runs.begin(caller.share, "shell", work)
        if len(self._asking) >= _MOST_ASKING:
            self._asking.pop(next(iter(self._asking)))
        self._asking[run.id] = run, asked
        return await self._attended(ctx, run, asked)

    async def _attended(
        self, ctx: Context[Any, Any], run: Run, asked: _Asked, state: State | None = None
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        run.handed_out = True  # it goes on when the request is over: the queue is for those who take their time
        desk = self.bench.permissions.desk
        needed = await Attendance(ctx=ctx, run=run, desk=desk, state=state).attend(_WAIT_SECONDS)
        if needed is not None:
            return needed
        if not run.is_over:
            ids = " ".join(one.id for one in desk.pending(run.id))
            words = f"The owner has to say: gloveport approvals approve {ids}. Tell them, then call this again."
            return _told(asked, "waiting", words, None)
        self._asking.pop(run.id, None)
        if isinstance(run.failure, Denied):
            return refusal(run.failure, {"status": "denied", "grant_id": None, "expires_at": None})
        if run.failure is not None:
            raise run.failure
        if run.result is None:
            return _told(asked, "denied", "The question was withdrawn.", None)
        verdict = Verdict.model_validate(run.result.value)
        if not verdict.allowed:
            return _told(asked, "denied", f"The owner has not permitted it ({verdict.by}).", None)
        permit = self.bench.permissions.grant(
            asked.owner, asked.gate, asked.subject, verdict, scope=asked.scope, seconds=asked.seconds, run=run.id
        )
        return _told(
            asked, "granted", f"Call the tool again within {asked.seconds:g} s; scope {permit.scope}.", permit.id
        )

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
            given = arguments.get("changes")
            changes = [
                PathChange.model_validate({"operation": one.get("action"), "path": one.get("path")})
                for one in (given if isinstance(given, list) else [])
                if isinstance(one, dict)
            ]
        ignored = await to_thread.run_sync(ignored_among, self.bench.tree, [change.path for change in changes])
        return write_action(changes, ignored)


def _told(
    asked: _Asked, status: Literal["granted", "denied", "waiting"], message: str, grant_id: str | None
) -> wire.CallToolResult:
    expires = datetime.now(UTC) + timedelta(seconds=asked.seconds)
    constraints: JsonValue = {"permission": asked.gate, "scope": asked.scope, "subject": asked.subject}
    told = {
        "status": status,
        "message": message,
        "grant_id": grant_id,
        "expires_at": expires.isoformat(timespec="seconds") if grant_id else None,
        "constraints": constraints,
        "warnings": [],
    }
    answer = reply(told, texts.permission(told))
    if status == "denied":
        answer.structured_content = {**told, "ok": False}
        answer.is_error = True
    return answer


def _invalid(error: ValidationError) -> WorkspaceError:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return WorkspaceError("INVALID_ARGUMENT", f"arguments.{where}: {first['msg']}")
