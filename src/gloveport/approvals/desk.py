"""Asks the owner, for one server: puts questions, waits for the first answer, and remembers longer approvals.

An answer comes from the queue (another process, through the store), from the client's dialog (this process), or from an
earlier approval. No answer in time is a denial, and so is a store that can't be used. If several answers come at the
same moment, the first in the store counts.
"""

import contextlib
import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias, TypeVar

import anyio
from anyio import to_thread

from gloveport.approvals.patterns import means
from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Status, Store, require_about
from gloveport.errors import ConfigError, Denied
from gloveport.untrusted_text import printable, printable_lines

Channel: TypeAlias = Literal["client", "queue"]

MOST_OF_RUN = 32
"""Questions of one run that may wait at the same time."""
MOST_OF_SERVER = 256

_POLL_SECONDS = 0.2
_SESSIONS = 1024
"""Sessions whose approvals are remembered."""
MOST_REFUSALS = 3
"""Refusals of one subject after which nobody is asked about it again in that run: people who are asked often enough
say yes."""
MOST_REFUSALS_OF_RUN = 16
"""The same for all subjects of a run, since a program may make up new ones."""

_TEXT = 2000
_REMEMBERED = Verdict(allowed=True, by="remembered: the run or session")
_REFUSED = Verdict(allowed=False, by="the owner has said no often enough in this run")
_TIMEOUT = Verdict(allowed=False, by="timeout")
_CANCELLED = Verdict(allowed=False, by="cancelled")
_NOBODY = Verdict(allowed=False, by="nobody to ask")
_UNAVAILABLE = Verdict(allowed=False, by="the queue can't be used")

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Pending:
    """A question on its way to an answer.

    Attributes:
        is_stored: Whether it is in the store, and so can be answered.
    """

    question: Question
    asker: "RunAsker"
    is_stored: bool = False
    verdict: Verdict | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(kw_only=True, eq=False)
class RunAsker:
    """Asks questions of one run. Approvals for the run are forgotten with it.

    Attributes:
        changed: Called when a question of the run comes or goes. Must not wait.
        approved: Subjects that are approved for the run.
        refused: How often each subject was refused.
        withdrawn_seconds: How long its withdrawn questions have waited together.
        gave_up: Whether a question got no answer in time, or withdrawn ones have waited as long. Then nobody is asked
            again, or a program could wait for ever.
    """

    desk: "Desk"
    changed: Callable[[], None]
    approved: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    withdrawn_seconds: float = 0
    gave_up: bool = False

    async def ask(self, text: str, *, subject: str, run: str, caller: str, session: str, detail: str) -> Verdict:
        """Ask a person, unless an earlier answer holds. Wait for the first answer.

        Args:
            text: The question, in words.
            subject: What would be done, as ``policy.decisions.subjects`` writes it.
            run: The run that asks.
            caller: Who has started the run.
            session: Whose approvals count; opaque. Without a session, no approval holds for one.
            detail: What exactly would be done, in lines, limited as in ``policy.decisions.subjects``.

        Raises:
            Denied: Too many questions wait, or the queue can't be used.
        """
        now = datetime.now(UTC)
        question = Question(
            id=f"apr-{os.urandom(8).hex()}",
            run=run,
            caller=printable(caller)[:_TEXT],
            session=session,
            subject=subject,
            text=printable(text)[:_TEXT],
            detail=printable_lines(detail),
            asked=now,
            expires=now + timedelta(seconds=self.desk.timeout_seconds),
        )
        return await self.desk.ask(Pending(question=question, asker=self))


@dataclass(eq=False)
class Desk:
    """Asks questions of all runs of one server.

    Attributes:
        store: Where questions and answers are kept; it has been created.
        channels: Who may answer. If empty, nobody is asked.
    """

    store: Store
    timeout_seconds: float
    channels: frozenset[Channel]
    _pending: dict[str, Pending] = field(default_factory=dict, init=False)
    _sessions: OrderedDict[str, set[str]] = field(default_factory=OrderedDict, init=False)
    _looking: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    # One at a time: a thread that waits for another's lock in SQLite sleeps in long steps.
    _thread: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1), init=False)

    @property
    def asks_clients(self) -> bool:
        """Whether a question may be put to the client."""
        return "client" in self.channels

    def asker(self, changed: Callable[[], None]) -> RunAsker:
        """The asker for a new run. ``changed`` is called when one of its questions comes or goes; it must not wait."""
        return RunAsker(desk=self, changed=changed)

    def pending(self, run: str) -> list[Question]:
        """The questions of a run that nobody has answered yet, the oldest first."""
        return [one.question for one in self._open() if one.is_stored and one.question.run == run]

    def answer(self, question_id: str, verdict: Verdict) -> None:
        """Answer a question of this process, for the client. Has no effect if it is answered already.

        Raises:
            Denied: The verdict has a pattern that does not match the question.
        """
        pending = self._pending.get(question_id)
        if pending is not None and self.asks_clients:
            require_about(verdict, pending.question)
            _settle(pending, verdict)

    async def remembers(self, subject: str) -> bool:
        """Whether a person has approved a pattern that matches this subject.

        Raises:
            ConfigError: The queue can't be used.
        """
        return any(means(pattern, subject) for pattern in await self._in_thread(self._load_patterns))

    async def ask(self, pending: Pending) -> Verdict:
        """Put a question, and wait until it has a verdict. For ``RunAsker``."""
        if not self.channels:
            return _NOBODY
        if self._is_approved(pending):
            return _REMEMBERED
        if pending.asker.gave_up:
            return _TIMEOUT
        if _is_refused(pending):
            return _REFUSED
        self._require_room(pending.asker)
        self._pending[pending.question.id] = pending  # it counts from here on
        try:
            return await self._verdict(pending)
        except ConfigError as error:
            _log.warning("nobody can be asked: %s", error)
            raise Denied(  # the reason names paths of the host, so it is not for the program
                "approvals_unavailable",
                "The owner can't be asked: their queue can't be used.",
                hint="Tell them; the log of the server says why.",
            ) from error
        finally:
            del self._pending[pending.question.id]
            pending.asker.changed()

    async def _verdict(self, pending: Pending) -> Verdict:
        question = pending.question
        patterns = await self._in_thread(self._load_patterns)
        if (remembered := _find_remembered(patterns, question)) is not None:
            return remembered
        began = anyio.current_time()
        try:
            await self._in_thread(partial(self.store.put, question, in_queue="queue" in self.channels))
            pending.is_stored = True
            pending.asker.changed()
            await self._wait(pending)
            verdict = pending.verdict or _TIMEOUT
            _settle(pending, verdict)
            status: Status = "expired" if verdict is _TIMEOUT else "allowed" if verdict.allowed else "denied"
            stands = await self._write_outcome(pending, status, verdict)
        except BaseException:  # the run is over, or does not wait for the answer any more
            pending.asker.withdrawn_seconds += anyio.current_time() - began
            pending.asker.gave_up |= pending.asker.withdrawn_seconds > self.timeout_seconds
            with anyio.CancelScope(shield=True), contextlib.suppress(ConfigError):
                await self._write_outcome(pending, "cancelled", _CANCELLED)
            raise
        if stands == _TIMEOUT:
            pending.asker.gave_up = True
        if stands.allowed:
            self._remember(pending, stands)
        elif stands != _REFUSED:
            self._refuse(pending)
        return stands

    def _load_patterns(self) -> tuple[str, ...]:
        self.store.create()  # the owner may have moved a damaged file away, to begin anew
        _, patterns = self.store.news(())
        return patterns

    async def _write_outcome(self, pending: Pending, status: Status, verdict: Verdict) -> Verdict:
        """Store how a question has ended. An earlier verdict in the store stands."""
        return await self._in_thread(partial(self.store.settle, pending.question.id, status, verdict))

    async def _wait(self, pending: Pending) -> None:
        with anyio.move_on_after(self.timeout_seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._look_for_answers)
                await pending.answered.wait()
                tasks.cancel_scope.cancel()

    async def _look_for_answers(self) -> None:
        """Poll the store for answers: one of the waiting tasks does it for all."""
        async with self._looking:
            while True:
                await anyio.sleep(_POLL_SECONDS)
                question_ids = [one.question.id for one in self._open() if one.is_stored]
                try:
                    verdicts, patterns = await self._in_thread(partial(self.store.news, question_ids))
                except ConfigError:
                    verdicts, patterns = dict.fromkeys(question_ids, _UNAVAILABLE), ()
                now = datetime.now(UTC)
                for one in self._open():
                    verdict = verdicts.get(one.question.id) or _find_remembered(patterns, one.question)
                    if verdict is None and one.question.expires <= now:
                        # The queue takes no answer any more. Our clock may be late: it stands while the host sleeps.
                        verdict = _TIMEOUT
                    if verdict is not None and one.is_stored:
                        _settle(one, verdict)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        # Never abandoned half-way: a row must not appear when nobody waits for it any more.
        return await to_thread.run_sync(work, abandon_on_cancel=False, limiter=self._thread)

    def _open(self) -> list[Pending]:
        return [one for one in self._pending.values() if one.verdict is None]

    def _require_room(self, asker: RunAsker) -> None:
        of_run = sum(one.asker is asker for one in self._pending.values())
        if of_run >= MOST_OF_RUN or len(self._pending) >= MOST_OF_SERVER:
            raise Denied(
                "too_many_questions",
                f"{of_run} questions of this run wait for the owner, and {len(self._pending)} of all runs.",
                hint=f"Wait for the answers: at most {MOST_OF_RUN} of a run may be open at a time.",
            )

    def _is_approved(self, pending: Pending) -> bool:
        question = pending.question
        in_session = question.subject in self._sessions.get(question.session, ())
        return in_session or question.subject in pending.asker.approved

    def _remember(self, pending: Pending, verdict: Verdict) -> None:
        """Let an approval hold for as long as it says, also for questions asked in the meantime."""
        question = pending.question
        if verdict.scope == "run":
            pending.asker.approved.add(question.subject)
        elif verdict.scope == "session" and question.session:
            self._sessions.setdefault(question.session, set()).add(question.subject)
            self._sessions.move_to_end(question.session)
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        for other in self._open():
            if self._is_approved(other):
                _settle(other, _REMEMBERED)

    def _refuse(self, pending: Pending) -> None:
        """Count a refusal; the last one allowed also settles the other questions that wait."""
        pending.asker.refused[pending.question.subject] += 1
        for other in self._open():
            if _is_refused(other):
                _settle(other, _REFUSED)


def _is_refused(pending: Pending) -> bool:
    refused = pending.asker.refused
    return refused[pending.question.subject] >= MOST_REFUSALS or refused.total() >= MOST_REFUSALS_OF_RUN


def _settle(pending: Pending, verdict: Verdict) -> None:
    """Wake the task that waits for a question. The first verdict counts here; the store decides in the end."""
    if pending.verdict is None:
        pending.verdict = verdict
        pending.answered.set()
        pending.asker.changed()


def _find_remembered(patterns: Iterable[str], question: Question) -> Verdict | None:
    found = (pattern for pattern in patterns if means(pattern, question.subject))
    return next((Verdict(allowed=True, by=f"remembered: {pattern}") for pattern in found), None)
