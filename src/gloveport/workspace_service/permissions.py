"""Asks a person for permissions at the gates of a workspace, and keeps those that hold."""

import os
import time
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from gloveport.approvals.desk import Desk
from gloveport.approvals.question import Verdict
from gloveport.audit.log import AuditLog
from gloveport.engine.runs import Run
from gloveport.errors import Denied
from gloveport.model import Result
from gloveport.model.json_value import JsonValue
from gloveport.model.workspace import Gate, RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.decisions.gate_decisions import open_needs
from gloveport.policy.decisions.modes import stance
from gloveport.policy.decisions.subjects import permission_subject

GrantScope: TypeAlias = Literal["once", "session"]
_MOST: Final = 256
_REMEMBERED: Final = "remembered"
"""In place of an id: the permission is a pattern that the owner has allowed for good."""


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """A request for one permission.

    Attributes:
        owner: Who would hold it; opaque.
        caller: Who asks, as the audit log names them.
        session: Whose approvals count; opaque.
        subject: What it would permit.
    """

    owner: str
    caller: str
    session: str
    gate: Gate
    subject: str
    scope: GrantScope
    seconds: float

    def facts(self) -> dict[str, JsonValue]:
        """The facts for the audit log."""
        return {"caller": self.caller, "gate": self.gate, "subject": self.subject}


class Permit(Struct, frozen=True, kw_only=True):
    """One permission.

    Attributes:
        scope: For how long it was given; maybe less than was asked for.
        expires: By the clock since boot, which goes on while a laptop is suspended.
    """

    id: str
    request: PermissionRequest
    scope: GrantScope
    expires: float

    @property
    def seconds_left(self) -> float:
        """How long it still holds."""
        return self.expires - time.clock_gettime(time.CLOCK_BOOTTIME)


class Permissions(Struct, eq=False, kw_only=True):
    """The permissions that hold now."""

    desk: Desk
    audit: AuditLog
    _permits: dict[str, Permit] = field(default_factory=dict)

    def permits_of(self, owner: str) -> list[Permit]:
        """The valid permissions of one owner."""
        self._permits = {permit.id: permit for permit in self._permits.values() if permit.seconds_left > 0}
        return [permit for permit in self._permits.values() if permit.request.owner == owner]

    async def apply(
        self, policy: WorkspacePolicy, owner: str, action: RunCommand | WriteFiles
    ) -> tuple[WorkspacePolicy, tuple[str, ...]]:
        """The policy for this action, with its permitted parts allowed, and the ids of the permissions that were
        applied.

        This uses up permissions that hold once, unless part of the action is not permitted: then none is used up.

        Raises:
            ConfigError: The file of patterns that a person has allowed for good can't be read.
        """
        gates = [*dict.fromkeys(need.gate for need in open_needs(policy, action.needs))]
        if not gates or any(stance(policy, gate) == "deny" for gate in gates):
            return policy, ()
        subjects = {permission_subject(gate, action) for gate in gates}
        remembered = {subject for subject in subjects if await self.desk.remembers(subject)}
        # Nothing is awaited from here on: of two concurrent calls, one uses up a permission that holds once.
        permits = {permit.request.subject: permit for permit in self.permits_of(owner)}
        if not subjects <= remembered | permits.keys():
            return policy, ()
        used = [permits[subject] for subject in sorted(subjects - remembered)]
        for permit in used:
            if permit.scope == "once":
                del self._permits[permit.id]
        ids = (*(permit.id for permit in used), *((_REMEMBERED,) if remembered else ()))
        return policy.model_copy(update={"gates": {**policy.gates, **dict.fromkeys(gates, "allow")}}), ids

    async def ask(self, run: Run, request: PermissionRequest, *, text: str, detail: str) -> Result:
        """Ask a person, in a run that may outlive the request. Its value is the verdict.

        Raises:
            Denied: They can't be asked.
            AuditError: It can't be written down. Nobody is asked then.
        """
        facts = {**request.facts(), "run": run.id}
        self.audit.append("permission.asked", {**facts, "scope": request.scope, "seconds": request.seconds})
        asker = self.desk.asker(run.notify)
        terms = f"asked for: {request.scope}, {request.seconds:.0f} s\n{detail}"
        try:
            verdict = await asker.ask(
                text, subject=request.subject, run=run.id, caller=request.caller, session=request.session, detail=terms
            )
        except Denied as denial:
            self.audit.append("permission.denied", {**facts, "by": "nobody to ask", "code": denial.code})
            raise
        except BaseException:  # the requester has gone
            self.audit.append("permission.denied", {**facts, "by": "cancelled"})
            raise
        if not verdict.allowed:
            self.audit.append("permission.denied", {**facts, "by": verdict.by})
        return Result(run_id=run.id, language=run.language, status="ok", value=verdict.model_dump(mode="json"))

    def deny(self, request: PermissionRequest, by: str) -> None:
        """Write down that a request is refused without asking anybody.

        Raises:
            AuditError: It can't be written down.
        """
        self.audit.append("permission.denied", {**request.facts(), "by": by})

    def grant(self, request: PermissionRequest, verdict: Verdict, run: str) -> Permit:
        """Let a permission hold. A person who says once means once, whatever was asked for."""
        lasting = request.scope == "session" and verdict.scope in {"run", "session", "pattern"}
        permit = Permit(
            id=f"grant-{os.urandom(8).hex()}",
            request=request,
            scope="session" if lasting else "once",
            expires=time.clock_gettime(time.CLOCK_BOOTTIME) + request.seconds,
        )
        facts = {**request.facts(), "run": run, "id": permit.id, "scope": permit.scope, "seconds": request.seconds}
        self.audit.append("permission.granted", {**facts, "by": verdict.by})
        permits = self.permits_of(request.owner)
        if len(permits) >= _MOST:
            del self._permits[permits[0].id]
        self._permits[permit.id] = permit
        return permit
