"""The reference monitor of one execution: every action is decided, written to the audit log, and only then done.

Nothing else may carry out an action. An action that can't be written down is not done; an ending that can't be written
down is an error to its caller. While a person is asked, the run's clock stands still.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Protocol, assert_never

from msgspec import Struct, field

from gloveport.approvals.question import Verdict
from gloveport.audit.log import AuditLog
from gloveport.errors import AuditError, Denied, UnrecordedEndError, UpstreamError
from gloveport.fairness import compute
from gloveport.model import Action, Allow, Ask, Decision, Deny, Execute, Grant
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.json_value import JsonValue
from gloveport.model.packages import Install
from gloveport.model.workspace import GateHit, RunCommand, WriteFiles
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.skill_grant import MOST_USED, UsedRight, used_right
from gloveport.policy.decisions.subjects import detail_of, subject_of
from gloveport.policy.wording import FINAL
from gloveport.sandbox.clock import Clock

_COMMAND_CHARACTERS = 2000
"""Of a command's text in the log; a longer one is logged with its digest."""

_DENIED = ".denied"
_NOBODY = Verdict(allowed=False, by="nobody to ask")


class Asker(Protocol):
    """Asks a person."""

    async def ask(self, text: str, *, subject: str, run: str, caller: str, session: str, detail: str) -> Verdict:
        """Ask, and wait for the answer. No answer is a denial.

        Args:
            text: The question, in words.
            subject: What would be done, in one line; approvals are for exactly this line.
            run: The run that asks.
            caller: The caller of that run.
            session: Whose approvals count; opaque.
            detail: What exactly would be done. Printable.
        """


class Ending(Struct, kw_only=True):
    """The log's facts about the end of an action; whoever carries it out fills them in."""

    fields: dict[str, JsonValue] = field(default_factory=dict)


class Guard(Struct, frozen=True, kw_only=True):
    """Decides and records for one execution.

    Attributes:
        session: Whose approvals count; opaque.
        asker: Asks a person; without one, actions that need asking are denied.
        asks_for: The run that is named to the person, if it is another one: the outer run, which the caller knows.
        permits: Ids of the permissions without which the grant would not allow the command or write.
        clock: The execution's.
        refusals: How many of each kind of action there were; those of runs that it calls are counted there, too.
        used: The rights that admitted actions used, for a skill's grant; only the first if there are many. None: not
            recorded.
    """

    grant: Grant
    audit: AuditLog
    caller: str
    run_id: str
    session: str = ""
    asker: Asker | None = None
    asks_for: str = ""
    permits: tuple[str, ...] = ()
    clock: Clock = field(default_factory=Clock)
    refusals: Counter[str] = field(default_factory=Counter)
    used: set[UsedRight] | None = None

    def admit(self, action: Action) -> AbstractAsyncContextManager[Ending]:
        """Let an action happen inside the context, if the grant and, where a rule asks, a person allow it.

        Entering decides and records; leaving records how it ended.

        Raises:
            Denied: It is not allowed, or the body was refused something on the way; both are recorded.
            AuditError: It can't be written down, so nothing was done; UnrecordedEndError: only its ending is lost.
        """
        return _Admission(self, action)

    def admit_now(self, action: Action) -> AbstractContextManager[Ending]:
        """The same without waiting.

        Raises:
            Denied, AuditError: As ``admit``; actions that a person would be asked about are denied too.
        """
        return _Admission(self, action)

    def deny(self, kind: str, denial: Denied, facts: Mapping[str, JsonValue]) -> None:
        """Write down the refusal of a malformed action of this kind. Raises AuditError if it can't be written down."""
        record = {**facts, "status": "denied", "code": denial.code, "reason": denial.reason}
        _record(self, f"{kind}.denied", record)


class _Admission:
    """The context of one action. A class, since a generator would cost as much as half of a record."""

    __slots__ = ("_action", "_admitted", "_ending", "_guard")

    def __init__(self, guard: Guard, action: Action) -> None:
        self._guard = guard
        self._action = action
        self._ending = Ending()
        self._admitted = 0  # number of the record that says so

    def __enter__(self) -> Ending:
        self._begin(decide(self._guard.grant, self._action), _facts(self._action))
        return self._ending

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            self._end(error)
        except AuditError as unrecorded:
            raise UnrecordedEndError(
                f"what it has done stands, but how it ended can't be recorded: {unrecorded.args[0]}",
                hint=f"see what it has done before you repeat it; {unrecorded.hint}",
            ) from unrecorded

    def _end(self, error: BaseException | None) -> None:
        fields = {"of": self._admitted, **self._ending.fields}
        match error:
            case None:
                self._record("ended", fields)
            case Denied(code=code, reason=reason):
                self._record("denied", {**fields, "status": "denied", "code": code, "reason": reason})
            case UpstreamError(code=code):  # its text holds nothing that a server has sent
                self._record("ended", {**fields, "status": "failed", "code": code, "reason": str(error.args[0])})
            case Exception():
                self._record("ended", {**fields, "status": "failed", "error": type(error).__name__})
            case _:  # the caller has gone or cancelled: the sandbox is dead
                self._record("ended", {**fields, "status": "cancelled"})

    async def __aenter__(self) -> Ending:
        facts, size = _facts(self._action), self._action.bytes if isinstance(self._action, CallTool) else 0
        decision = await compute(size, decide, self._guard.grant, self._action)
        if isinstance(decision, Ask):
            await self._ask(decision.question, {**facts, "rule": decision.rule})
        else:
            self._begin(decision, facts)
        return self._ending

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _begin(self, decision: Decision, facts: Mapping[str, JsonValue]) -> None:
        match decision:
            case Allow(rule=rule):
                self._admitted = self._record("admitted", {**facts, **self._permission_facts(), "rule": rule})
                self._note_use()
            case Deny(code=code, reason=reason, hint=hint):
                self._record("denied", {**facts, "status": "denied", "code": code, "reason": reason})
                raise Denied(code, reason, hint=hint)
            case Ask(question=question):
                self._record("denied", {**facts, "status": "denied", "code": "approval_denied"})
                raise Denied("approval_denied", f"{question} Nobody can be asked here.", hint=FINAL)

    def _permission_facts(self) -> dict[str, JsonValue]:
        # Requests of a permitted command have rules of their own.
        ours = self._guard.permits and isinstance(self._action, RunCommand | WriteFiles)
        return {"permission": [*self._guard.permits]} if ours else {}

    async def _ask(self, question: str, facts: Mapping[str, JsonValue]) -> None:
        verdict = _NOBODY
        if self._guard.asker is not None:
            try:
                detail = detail_of(self._action)
                self._record("asked", facts)
                verdict = await self._answer(self._guard.asker, question, detail)
            except Denied as denial:
                self._record("denied", {**facts, "status": "denied", "code": denial.code, "reason": denial.reason})
                raise
            except BaseException:  # the run is over: nobody waits for the answer
                self._record("ended", {**facts, "status": "cancelled"})
                raise
        answer_facts: dict[str, JsonValue] = {**facts, "by": verdict.by, "scope": verdict.scope}
        if verdict.allowed:
            self._admitted = self._record("admitted", answer_facts)
            self._note_use()
            return
        self._record("denied", {**answer_facts, "status": "denied", "code": "approval_denied"})
        if verdict.by == "timeout":
            reason, hint = "Nobody has answered in time.", "Run the program again when the owner is there."
        else:
            reason = f"The owner has not allowed it: {verdict.by}."
            hint = f"Do without it, or tell the owner what it is for. {FINAL}"
        raise Denied("approval_denied", f"{question} {reason}", hint=hint)

    def _note_use(self) -> None:
        used = self._guard.used
        if used is not None and len(used) <= MOST_USED and (right := used_right(self._action)) is not None:
            used.add(right)

    async def _answer(self, asker: Asker, question: str, detail: str) -> Verdict:
        guard = self._guard
        with guard.clock.pause():
            return await asker.ask(
                question,
                subject=subject_of(self._action),
                run=guard.asks_for or guard.run_id,
                caller=guard.caller,
                session=guard.session,
                detail=detail,
            )

    def _record(self, event: str, fields: Mapping[str, JsonValue]) -> int:
        if event != "admitted" and isinstance(self._action, Execute | RunCommand):
            fields = {**fields, **_count_refusals(self._guard)}  # this is the last record of a run
        return _record(self._guard, f"{self._action.kind}.{event}", fields)


def _facts(action: Action) -> dict[str, JsonValue]:  # noqa: PLR0911 - one for each kind
    """The log's facts about an action. Of a call's arguments only size and digest: they may hold anything."""
    # Each field by its name: a field that is added later may hold a secret. ``model_dump`` would take ten times as
    # long.
    match action:
        case Execute():
            return {
                "language": action.language,
                "code_bytes": action.code_bytes,
                "code_sha256": action.code_sha256,
                **({"files": dict(action.files), "files_bytes": action.files_bytes} if action.files else {}),
                **(_pick(action, "skill", "skill_sha256", "approved") if action.skill else {}),
                **(_pick(action, "parent") if action.parent else {}),
            }
        case Fetch():
            return _pick(action, "method", "scheme", "host", "port", "path")
        case Connect():
            return _pick(action, "scheme", "host", "port", "database")
        case CallTool():
            return {
                **_pick(action, "server", "tool", "read_only", "destructive"),
                "arguments": {"bytes": action.bytes, "sha256": action.sha256},
                "addresses": {host: list(addresses) for host, addresses in action.addresses.items()},
            }
        case Sample():
            return _pick(action, "model", "prompt_bytes", "max_tokens")
        case RunCommand():
            command = action.command.encode("utf-8", "surrogatepass")
            return {
                "command": action.command[:_COMMAND_CHARACTERS],
                "bytes": len(command),
                "sha256": hashlib.sha256(command).hexdigest(),
                **_pick(
                    action, "workdir", "session", "environment", "tty", "stdin_bytes", "stdin_sha256", "keeps_stdin"
                ),
                "variables": [*action.variables],
                "variables_sha256": action.variables_sha256,
                "hosts": [*action.hosts],
                "needs": _gates(action.needs),
            }
        case WriteFiles():
            return {
                "changes": [{"operation": change.operation, "path": change.path} for change in action.changes],
                "bytes": action.bytes,
                "sha256": action.sha256,
                "needs": _gates(action.needs),
            }
        case Install():
            return {
                **_pick(action, "environment", "lock_sha256"),
                "asked": [*action.requested_names],
                "packages": [f"{one.name}=={one.version}" for one in action.packages],
            }
        case _:
            assert_never(action)


def _pick(action: Action, *fields: str) -> dict[str, JsonValue]:
    return {field: getattr(action, field) for field in fields}


def _gates(needs: Sequence[GateHit]) -> list[JsonValue]:
    return [*dict.fromkeys(need.gate for need in needs)]


def _count_refusals(guard: Guard) -> dict[str, JsonValue]:
    """How many refusals of each kind there were, if not all were logged."""
    many = {name: count for name, count in guard.refusals.items() if count > guard.audit.bounds.refusals}
    return {"refused": {**many}} if many else {}


def _record(guard: Guard, kind: str, fields: Mapping[str, JsonValue]) -> int:
    """Write a record, and return its number. After many refusals of one kind, further ones are only counted: a refusal
    costs a program nothing, and would fill the log.
    """
    if kind.endswith(_DENIED):
        refusal = f"{kind.removesuffix(_DENIED)} {fields.get('code', '')}"
        guard.refusals[refusal] += 1
        most = guard.audit.bounds.refusals
        if guard.refusals[refusal] > most:
            return 0
        if guard.refusals[refusal] == most:
            fields = {**fields, "further": "are counted"}
    return guard.audit.append(kind, {"caller": guard.caller, "run": guard.run_id, **fields}).seq
