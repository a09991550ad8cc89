"""What a person has permitted at the gates of a workspace, for how long, and how they are asked."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from gloveport.approvals.desk import Desk
from gloveport.approvals.question import Verdict
from gloveport.audit.log import AuditLog
from gloveport.engine.runs import Run
from gloveport.errors import Denied
from gloveport.model import Result
from gloveport.model.workspace import Gate, RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.gates import open_needs
from gloveport.policy.modes import stance
from gloveport.policy.shell_text.variables import find_secret
from gloveport.policy.subjects import MOST_CHARACTERS, MOST_LINES, permission_subject
from gloveport.untrusted_text import printable

GrantScope: TypeAlias = Literal["once", "session"]
_MOST: Final = 256
_REMEMBERED: Final = "remembered"
"""In place of an id: a pattern that the owner has allowed for good."""
_MOST_LINES: Final = 80
_MOST_CHARACTERS: Final = 6000
"""What is shown of a text that is bound by its digest; the person is told of the rest."""
_MOST_VALUE: Final = 200


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One permission that somebody asks for.

    Attributes:
        owner: Whose it would be; opaque.
        caller: Who asks, as the log names them.
        session: Whose approvals count; opaque.
        subject: What it would be for.
    """

    owner: str
    caller: str
    session: str
    gate: Gate
    subject: str
    scope: GrantScope
    seconds: float


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

    async def applied(
        self, policy: WorkspacePolicy, owner: str, action: RunCommand | WriteFiles
    ) -> tuple[WorkspacePolicy, tuple[str, ...]]:
        """The policy for this action, with what is permitted of it allowed, and the ids of the permissions for that.

        What holds for once is used up by that. Where not all of it is permitted nothing is used up.

        Raises:
            ConfigError: What a person has allowed for good can't be read.
        """
        gates = [*dict.fromkeys(need.gate for need in open_needs(policy, action.needs))]
        if not gates or any(stance(policy, gate) == "deny" for gate in gates):
            return policy, ()
        subjects = {permission_subject(gate, action) for gate in gates}
        remembered = {subject for subject in subjects if await self.desk.remembers(subject)}
        # Nothing is awaited from here on: of two calls at once, one uses up what holds for once.
        held = {permit.subject: permit for permit in self.held(owner)}
        if not subjects <= remembered | held.keys():
            return policy, ()
        used = [held[subject] for subject in sorted(subjects - remembered)]
        for permit in used:
            if permit.scope == "once":
                del self._permits[permit.id]
        ids = (*(permit.id for permit in used), *((_REMEMBERED,) if remembered else ()))
        return policy.model_copy(update={"gates": {**policy.gates, **dict.fromkeys(gates, "allow")}}), ids

    async def ask(self, run: Run, wish: Wish, *, text: str, detail: str) -> Result:
        """Have a person asked, as a run that may outlive the request. Its value is the verdict.

        Raises:
            Denied: They can't be asked.
            AuditError: It can't be written down. Nobody is asked then.
        """
        facts: dict[str, JsonValue] = {"caller": wish.caller, "run": run.id, "gate": wish.gate, "subject": wish.subject}
        self.audit.append("permission.asked", {**facts, "scope": wish.scope, "seconds": wish.seconds})
        asker = self.desk.asker(run.stir)
        asked = f"asked for: {wish.scope}, {wish.seconds:.0f} s\n{detail}"
        try:
            verdict = await asker.ask(
                text, subject=wish.subject, run=run.id, caller=wish.caller, session=wish.session, detail=asked
            )
        except Denied as denial:
            self.audit.append("permission.denied", {**facts, "by": "nobody to ask", "code": denial.code})
            raise
        except BaseException:  # whoever has asked does not want to know any more
            self.audit.append("permission.denied", {**facts, "by": "cancelled"})
            raise
        if not verdict.allowed:
            self.audit.append("permission.denied", {**facts, "by": verdict.by})
        return Result(run_id=run.id, language=run.language, status="ok", value=verdict.model_dump(mode="json"))

    def deny(self, wish: Wish, by: str) -> None:
        """Write down that something is not permitted, about which nobody is asked.

        Raises:
            AuditError: It can't be written down.
        """
        facts = {"caller": wish.caller, "gate": wish.gate, "subject": wish.subject, "by": by}
        self.audit.append("permission.denied", facts)

    def grant(self, wish: Wish, verdict: Verdict, run: str) -> Permit:
        """Let a permission hold. A person who says once has said once, whatever was asked for."""
        lasting = wish.scope == "session" and verdict.scope in {"run", "session", "pattern"}
        permit = Permit(
            id=f"grant-{os.urandom(8).hex()}",
            owner=wish.owner,
            subject=wish.subject,
            gate=wish.gate,
            scope="session" if lasting else "once",
            expires=time.monotonic() + wish.seconds,
        )
        self.audit.append(
            "permission.granted",
            {
                "caller": wish.caller,
                "run": run,
                "id": permit.id,
                "gate": wish.gate,
                "subject": wish.subject,
                "scope": permit.scope,
                "seconds": wish.seconds,
                "by": verdict.by,
            },
        )
        held = self.held(wish.owner)
        if len(held) >= _MOST:
            del self._permits[held[0].id]
        self._permits[permit.id] = permit
        return permit


def question(gates: Iterable[Gate], action: RunCommand | WriteFiles, reason: str) -> str:
    """What a person is asked."""
    why = " ".join(dict.fromkeys(need.why for need in action.needs if need.gate in {*gates}))
    return printable(f"Permit {', '.join(gates)}? {why} The agent says: {reason}")


def command_detail(action: RunCommand, variables: Mapping[str, str], stdin: str) -> str:
    """What exactly would be run, in lines: what is indented is the agent's.

    A command is never cut, for the agent chooses what would be left out. What it reads may be; that is told then.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    if len(action.command) > MOST_CHARACTERS:  # before it is written out
        raise _too_large(f"a command of {len(action.command)} characters")
    where = f"in {printable(action.workdir)}:"
    values = [f"  {printable(name)}{_value(name, value)}" for name, value in sorted(variables.items())]
    head = ["with these variables:", *values, where] if variables else [f"with no variables, {where}"]
    open_ended = ["its input stays open: the agent may write more to it"] if action.keeps_stdin else []
    read = _bound("standard input", stdin, action.stdin_bytes, action.stdin_sha256) if stdin else []
    return _whole([*head, *_indented(action.command), *open_ended, *read])


def write_detail(action: WriteFiles, content: str) -> str:
    """What exactly would be done with which file, and the patch or changes, in lines.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    changes = [f"{change.operation} {printable(change.path)}" for change in action.changes]
    return _whole([*changes, *_bound("how", content, action.bytes, action.sha256)])


def _value(name: str, value: str) -> str:
    if kind := find_secret(name, value):
        return f": {kind}, {len(value)} characters"
    more = f"… of {len(value)} characters" if len(value) > _MOST_VALUE else ""
    return f"={printable(value[:_MOST_VALUE])}{more}"


def _bound(what: str, text: str, size: int, digest: str) -> list[str]:
    """A text of which the permission has the digest, as far as there is room for it."""
    lines = _indented(text[:_MOST_CHARACTERS])
    cut = len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS
    head = f"{what}, {size} bytes, SHA-256 {digest}{', NOT ALL OF IT SHOWN' if cut else ''}:"
    return [head, *lines[:_MOST_LINES]]


def _indented(text: str) -> list[str]:
    return [f"  {printable(line)}" for line in text.removesuffix("\n").split("\n")]


def _whole(lines: Sequence[str]) -> str:
    characters = sum(map(len, lines))
    if len(lines) > MOST_LINES or characters > MOST_CHARACTERS:
        raise _too_large(f"{len(lines)} lines of {characters} characters")
    return "\n".join(lines)


def _too_large(what: str) -> Denied:
    return Denied(
        "too_large_to_ask",
        f"A person has to permit this, and can't be shown {what}.",
        hint="Put what is long into a file, or do it in several calls.",
    )
