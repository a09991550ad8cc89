"""The reference monitor of one execution: every action is decided, written down, and only then done.

Nothing else may carry out an action. An action that can't be written down is not done; an ending that can't be written
down is an error to whoever waits for it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType

from pydantic import JsonValue

from gloveport.audit.log import AuditLog
from gloveport.errors import Denied, UpstreamError
from gloveport.model import Action, Allow, Ask, Deny, Grant
from gloveport.policy.decide import decide

_ASKED = "approval_required"


@dataclass(kw_only=True)
class Ending:
    """What is written about an action when it is over; the one who acts fills it in."""

    fields: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Decides and records for one execution."""

    grant: Grant
    audit: AuditLog
    caller: str
    run_id: str

    def admit(self, action: Action) -> AbstractContextManager[Ending]:
        """Let an action happen inside the context, if the grant allows it.

        Entering decides and writes down; leaving writes down how it ended.

        Raises:
            Denied: The grant does not allow it, or the body was refused something on the way; both are recorded.
            AuditError: It can't be written down; nothing was done, or its ending is lost.
        """
        return _Admission(self, action)

    def deny(self, kind: str, denial: Denied, facts: Mapping[str, JsonValue]) -> None:
        """Write down the refusal of what was meant to be an action of this kind, and is none.

        Raises:
            AuditError: It can't be written down.
        """
        record = {**facts, "status": "denied", "code": denial.code, "reason": denial.reason}
        _record(self, f"{kind}.denied", record)


class _Admission:
    """One action under its guard. A class, for a generator would cost as much as half of a record."""

    __slots__ = ("_action", "_ending", "_guard")

    def __init__(self, guard: Guard, action: Action) -> None:
        self._guard = guard
        self._action = action
        self._ending = Ending()

    def __enter__(self) -> Ending:
        action = self._action
        # Not ``model_dump``, which takes ten times as long: actions are flat, and the log refuses what is no JSON.
        facts: dict[str, JsonValue] = {**vars(action)}
        del facts["kind"]
        match decide(self._guard.grant, action):
            case Allow(rule=rule):
                self._record("admitted", {**facts, "rule": rule})
            case Deny(code=code, reason=reason, hint=hint):
                self._record("denied", {**facts, "status": "denied", "code": code, "reason": reason})
                raise Denied(code, reason, hint=hint)
            case Ask(rule=rule, question=question):  # there is nobody to ask yet
                self._record("denied", {**facts, "status": "denied", "code": _ASKED, "rule": rule})
                raise Denied(_ASKED, question, hint="this needs the owner's approval, which can't be asked for yet")
        return self._ending

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        fields = self._ending.fields
        match error:
            case None:
                self._record("ended", fields)
            case Denied(code=code, reason=reason):
                self._record("denied", {"status": "denied", "code": code, "reason": reason})
            case UpstreamError(code=code):  # whose texts hold nothing that a server has sent
                self._record("ended", {**fields, "status": "failed", "code": code, "reason": str(error.args[0])})
            case Exception():
                self._record("ended", {**fields, "status": "failed", "error": type(error).__name__})
            case _:  # the caller has gone or cancelled: the sandbox is dead by now
                self._record("ended", {**fields, "status": "cancelled"})

    def _record(self, event: str, fields: Mapping[str, JsonValue]) -> None:
        _record(self._guard, f"{self._action.kind}.{event}", fields)


def _record(guard: Guard, kind: str, fields: Mapping[str, JsonValue]) -> None:
    guard.audit.append(kind, {"caller": guard.caller, "run": guard.run_id, **fields})
