"""What a person has permitted at the gates of a workspace, for how long, and how they are asked."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from gloveport.approvals.desk import Desk
from gloveport.approvals.question import Verdict
from gloveport.audit.log import AuditLog
from gloveport.engine.runs import Run
from gloveport.errors import Denied
from gloveport.model import Result
from gloveport.model.workspace import Gate, RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.gates import open_needs
from gloveport.policy.modes import stance
from gloveport.policy.subjects import MOST_CHARACTERS, MOST_LINES, permission_subject
from gloveport.policy.wording import printable

GrantScope: TypeAlias = Literal["once", "session"]
_MOST: Final = 256


@dataclass(frozen=True, kw_only=True)
class Permit:
    """One permission.

    Attributes:
        owner: Whose it is; opaque.
        subject: What it is for.
        expires: By the monotonic clock.
    """

    id: str
    owner: str
    subject: str
    gate: Gate
    scope: GrantScope
    expires: float


@dataclass(eq=False, kw_only=True)
class Permissions:
    """The permissions that hold now."""

    desk: Desk
    audit: AuditLog
    _permits: dict[str, Permit] = field(default_factory=dict)

    def held(self, owner: str) -> list[Permit]:
        """Those of one owner that hold."""
        now = time.monotonic()
        self._permits = {permit.id: permit for permit in self._permits.values() if permit.expires > now}
        return [permit for permit in self._permits.values() if permit.owner == owner]

    async def applied(self, policy: WorkspacePolicy, owner: str, action: RunCommand | WriteFiles) -> WorkspacePolicy:
        """The policy for this action, with what is permitted of it allowed. What holds for once is used up by that.

        Where not all of it is permitted nothing is used up.

        Raises:
            ConfigError: What a person has allowed for good can't be read.
        """
        gates = [*dict.fromkeys(need.gate for need in open_needs(policy, action.needs))]
        if not gates or any(stance(policy, gate) == "deny" for gate in gates):
            return policy
        subjects = {permission_subject(gate, action) for gate in gates}
        remembered = {subject for subject in subjects if await self.desk.remembers(subject)}
        # Nothing is awaited from here on: of two calls at once, one uses up what holds for once.
        held = {permit.subject: permit for permit in self.held(owner)}
        if not subjects <= remembered | held.keys():
            return policy
        for subject in subjects - remembered:
            if held[subject].scope == "once":
                del self._permits[held[subject].id]
        return policy.model_copy(update={"gates": {**policy.gates, **dict.fromkeys(gates, "allow")}})

    async def ask(self, run: Run, *, text: str, subject: str, caller: str, session: str, detail: str) -> Result:
        """Have a person asked, as a run that may outlive the request. Its value is the verdict."""
        asker = self.desk.asker(run.stir)
        verdict = await asker.ask(text, subject=subject, run=run.id, caller=caller, session=session, detail=detail)
        return Result(run_id=run.id, language=run.language, status="ok", value=verdict.model_dump(mode="json"))

    def grant(
        self, owner: str, gate: Gate, subject: str, verdict: Verdict, *, scope: GrantScope, seconds: float, run: str
    ) -> Permit:
        """Let a permission hold. A person who says once has said once, whatever was asked for."""
        lasting = scope == "session" and verdict.scope in {"run", "session", "pattern"}
        permit = Permit(
            id=f"grant-{os.urandom(8).hex()}",
            owner=owner,
            subject=subject,
            gate=gate,
            scope="session" if lasting else "once",
            expires=time.monotonic() + seconds,
        )
        self.audit.append(
            "permission.granted",
            {
                "run": run,
                "id": permit.id,
                "subject": subject,
                "scope": permit.scope,
                "seconds": seconds,
                "by": verdict.by,
            },
        )
        held = self.held(owner)
        if len(held) >= _MOST:
            del self._permits[held[0].id]
        self._permits[permit.id] = permit
        return permit


def question(gates: Iterable[Gate], action: RunCommand | WriteFiles, reason: str) -> str:
    """What a person is asked."""
    why = " ".join(dict.fromkeys(need.why for need in action.needs if need.gate in {*gates}))
    return printable(f"Permit {', '.join(gates)}? {why} The agent says: {reason}")


def detail(action: RunCommand | WriteFiles) -> str:
    """What exactly would be done, in lines. Nothing is cut, for the agent chooses what would be left out.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    if isinstance(action, RunCommand):
        variables = ", ".join(map(printable, action.variables)) or "no variables"
        lines = [f"with {variables}, in {printable(action.workdir)}:", *map(printable, action.command.split("\n"))]
    else:
        lines = [f"{change.operation} {printable(change.path)}" for change in action.changes]
    characters = sum(map(len, lines))
    if len(lines) > MOST_LINES or characters > MOST_CHARACTERS:
        raise Denied(
            "too_large_to_ask",
            f"A person has to permit this, and can't be shown {len(lines)} lines of {characters} characters.",
            hint="Put what is long into a file, or do it in several calls.",
        )
    return "\n".join(lines)
