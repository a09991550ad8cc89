"""The reference monitor of one execution: every action is decided, written down, and only then done.

Nothing else may carry out an action. An action that can't be written down is not done; an ending that can't be written
down is an error to whoever waits for it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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

    @contextlib.contextmanager
    def admit(self, action: Action) -> Iterator[Ending]:
        """Let an action happen inside the context, if the grant allows it.

        Raises:
            Denied: The grant does not allow it, or the body was refused something on the way; both are recorded.
            AuditError: It can't be written down; nothing was done, or its ending is lost.
        """
        decision = decide(self.grant, action)
        facts = action.model_dump(mode="json", exclude={"kind"})
        match decision:
            case Deny(code=code, reason=reason, hint=hint):
                self._record(f"{action.kind}.denied", {**facts, "status": "denied", "code": code, "reason": reason})
                raise Denied(code, reason, hint=hint)
            case Ask(rule=rule, question=question):  # there is nobody to ask yet
                self._record(f"{action.kind}.denied", {**facts, "status": "denied", "code": _ASKED, "rule": rule})
                raise Denied(_ASKED, question, hint="this needs the owner's approval, which can't be asked for yet")
            case Allow(rule=rule):
                self._record(f"{action.kind}.admitted", {**facts, "rule": rule})
        ending = Ending()
        try:
            yield ending
        except Denied as denial:
            self._record(f"{action.kind}.denied", {"status": "denied", "code": denial.code, "reason": denial.reason})
            raise
        except UpstreamError as error:
            self._record(f"{action.kind}.ended", {**ending.fields, "status": "failed", "code": error.code})
            raise
        except Exception as error:
            self._record(f"{action.kind}.ended", {**ending.fields, "status": "failed", "error": type(error).__name__})
            raise
        except BaseException:  # the caller has gone or cancelled: the sandbox is dead by now
            self._record(f"{action.kind}.ended", {**ending.fields, "status": "cancelled"})
            raise
        self._record(f"{action.kind}.ended", ending.fields)

    def deny(self, kind: str, denial: Denied, facts: Mapping[str, JsonValue]) -> None:
        """Write down the refusal of what was meant to be an action of this kind, and is none.

        Raises:
            AuditError: It can't be written down.
        """
        self._record(f"{kind}.denied", {**facts, "status": "denied", "code": denial.code, "reason": denial.reason})

    def _record(self, kind: str, fields: dict[str, JsonValue]) -> None:
        self.audit.append(kind, {"caller": self.caller, "run": self.run_id, **fields})
