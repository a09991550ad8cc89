"""Stores questions and their answers: the one place that decides whether a question is answered, and how.

Servers and ``gloveport approvals`` are different processes, and a question may be answered, run out and be cancelled at
the same moment. Its row changes only once, from pending, in a transaction; later attempts get the stored outcome.
"""

import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from gloveport.approvals.database import FILE_NAME, create, transaction, unreadable_error
from gloveport.approvals.patterns import means
from gloveport.approvals.process import birth_of
from gloveport.approvals.question import Question, Verdict
from gloveport.errors import Denied
from gloveport.model import Value
from gloveport.model.constraints import AwareDatetime
from gloveport.model.reading import read_json
from gloveport.policy.wording import quote_sent

if TYPE_CHECKING:
    from sqlite3 import Connection

Status: TypeAlias = Literal["pending", "allowed", "denied", "expired", "cancelled", "gone"]
"""``gone``: its server has died before anybody answered."""

MOST_KEPT = 500
"""Ended questions that are kept, so that a program which asks and leaves, again and again, can't fill the disk."""

_LOST = Verdict(allowed=False, by="it is not in the queue any more")
_RETENTION = timedelta(days=7)
_SHORTEST = 4
"""Digits of an id that has been cut short."""
_COLUMNS = "id, question, expires, queue, pid, birth, status, verdict, decided, uid, tty"


class Person(Value):
    """The person who answers, as the kernel knows them."""

    uid: int
    tty: str = ""
    """The terminal that they sit at; empty where there is none."""


class QueuedQuestion(Value):
    """A question and its outcome."""

    question: Question
    status: Status
    in_queue: bool
    """Whether it may be answered by ``gloveport approvals``."""
    verdict: Verdict | None = None
    decided: AwareDatetime | None = None
    person: Person | None = None


class Remembered(Value):
    """A pattern that holds until it is forgotten."""

    number: int
    pattern: str
    approved: AwareDatetime
    person: Person


class Store(Struct, frozen=True):
    """The approvals of one state directory.

    Every method reads or writes a file, waits for other processes, and raises ``ConfigError`` where the file can't be
    used.

    Attributes:
        directory: Where the file is; made by ``create``.
    """

    directory: Path

    @property
    def exists(self) -> bool:
        """Whether anything was ever asked here, since the owner has last moved the file away."""
        path = self.directory / FILE_NAME
        try:
            path.lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable_error(path, error) from error
        return True

    def create(self) -> None:
        """Make the directory and the file, unless they exist."""
        create(self.directory)

    def put(self, question: Question, *, in_queue: bool) -> None:
        """Store a new question of this process; forget those that ended a week ago, or are too many."""
        pid = os.getpid()
        with transaction(self.directory) as database:
            database.execute("DELETE FROM questions WHERE expires < ?", [(_now() - _RETENTION).timestamp()])
            database.execute(
                "DELETE FROM questions WHERE status != 'pending' AND id NOT IN"
                " (SELECT id FROM questions WHERE status != 'pending' ORDER BY decided DESC LIMIT ?)",
                [MOST_KEPT],
            )
            database.execute(
                "INSERT INTO questions (id, question, expires, queue, pid, birth) VALUES (?, ?, ?, ?, ?, ?)",
                [question.id, question.model_dump_json(), question.expires.timestamp(), in_queue, pid, birth_of(pid)],
            )

    def settle(self, question_id: str, status: Status, verdict: Verdict) -> Verdict:
        """Store how a question of this process has ended. Returns the verdict that counts: an earlier one, or this."""
        person = Person(uid=os.geteuid())
        with transaction(self.directory) as database:
            entry = _entry(database, question_id)
            if entry is not None and entry.verdict is not None:
                return entry.verdict
            _decide(database, question_id, status, verdict, person)
            return verdict

    def answer(self, question_id: str, verdict: Verdict, person: Person) -> Question:
        """Answer a pending question of any process. Returns the question.

        Raises:
            Denied: It can't be answered any more, or not here; or the pattern does not match it.
        """
        with transaction(self.directory) as database:
            entry = _entry(database, question_id)
            if entry is None:
                raise _unknown_question(question_id)
            _require_open(entry)
            require_about(verdict, entry.question)
            _require_session(verdict, entry.question)
            _decide(database, question_id, "allowed" if verdict.allowed else "denied", verdict, person)
            return entry.question

    def news(self, question_ids: Collection[str]) -> tuple[Mapping[str, Verdict], tuple[str, ...]]:
        """The verdicts on these questions, as far as they have one, and all remembered patterns. A question that is not
        in the file any more is refused: nobody could answer it.
        """
        with transaction(self.directory) as database:
            rows = database.execute(
                "SELECT id, verdict FROM questions WHERE id IN (SELECT value FROM json_each(?))",
                [json.dumps([*question_ids])],
            )
            kept = dict(rows)
            verdicts = {question_id: _LOST for question_id in question_ids if question_id not in kept}
            verdicts |= {key: read_json(Verdict, verdict) for key, verdict in kept.items() if verdict is not None}
            return verdicts, tuple(pattern for (pattern,) in database.execute("SELECT pattern FROM remembered"))

    def entries(self) -> tuple[QueuedQuestion, ...]:
        """All questions that are still kept, the oldest first."""
        with transaction(self.directory) as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM questions ORDER BY rowid").fetchall()  # noqa: S608
            return tuple(map(_read, rows))

    def find(self, prefix: str) -> str:
        """The id that begins with ``prefix``, with ``apr-`` or without.

        Raises:
            Denied: No id does, or several do; or it is no beginning of an id.
        """
        digits = prefix.removeprefix("apr-")
        if len(digits) < _SHORTEST or not {*digits} <= {*"0123456789abcdef"}:
            raise Denied(
                "no_id",
                f"{quote_sent(prefix)} is no id.",
                hint=f"Give an id of `gloveport approvals list`, or its first {_SHORTEST} digits or more.",
            )
        # Among all questions, not only pending ones: else a prefix could come to mean another question meanwhile.
        found = [entry.question.id for entry in self.entries() if entry.question.id.startswith(f"apr-{digits}")]
        if len(found) > 1:
            raise Denied(
                "several_ids", f"{len(found)} questions begin with {quote_sent(prefix)}.", hint="Give more of it."
            )
        if not found:
            raise _unknown_question(prefix)
        return found[0]

    def list_remembered(self) -> tuple[Remembered, ...]:
        """The patterns that hold, the oldest first."""
        with transaction(self.directory) as database:
            rows = database.execute("SELECT number, pattern, approved, uid, tty FROM remembered ORDER BY number")
            return tuple(
                Remembered(
                    number=number,
                    pattern=pattern,
                    approved=datetime.fromisoformat(approved),
                    person=Person(uid=uid, tty=tty),
                )
                for number, pattern, approved, uid, tty in rows
            )

    def forget(self, number: int) -> str:
        """Forget a pattern. Returns the pattern. Raises Denied if there is none of this number."""
        with transaction(self.directory) as database:
            row = database.execute("DELETE FROM remembered WHERE number = ? RETURNING pattern", [number]).fetchone()
            if row is None:
                raise Denied(
                    "unknown_number",
                    f"Nothing is remembered as number {number}.",
                    hint="See `gloveport approvals remembered`.",
                )
            return str(row[0])


def require_about(verdict: Verdict, question: Question) -> None:
    """Refuse to remember a pattern that does not even match the question. Raises Denied if it does not."""
    if verdict.scope == "pattern" and not means(verdict.pattern, question.subject):
        raise Denied(
            "pattern_does_not_match",
            f"The pattern {quote_sent(verdict.pattern)} does not mean this question.",
            hint=f"Change this, with * for any characters (in a command for none of `; | & # < >`, an end of a line, a "
            f"backtick and `$(`), but not its first word: {question.subject}",
        )


def _require_session(verdict: Verdict, question: Question) -> None:
    if verdict.scope == "session" and not question.session:
        raise Denied(
            "no_session",
            "Who asks has no session that could be told from others.",
            hint="Allow it once, for the run, or always for a pattern.",
        )


def _now() -> datetime:
    return datetime.now(UTC)


def _entry(database: "Connection", question_id: str) -> QueuedQuestion | None:
    row = database.execute(f"SELECT {_COLUMNS} FROM questions WHERE id = ?", [question_id]).fetchone()  # noqa: S608
    return None if row is None else _read(row)


def _read(row: tuple[Any, ...]) -> QueuedQuestion:
    """A row as an entry.

    Raises:
        ValueError: It has another shape: another program has written it.
    """
    _, question, expires, queue, pid, birth, status, verdict, decided, uid, tty = row
    if status == "pending" and (not birth or birth_of(pid) != birth):
        status = "gone"
    elif status == "pending" and expires <= _now().timestamp():
        status = "expired"
    return QueuedQuestion(
        question=read_json(Question, question),
        status=status,
        in_queue=bool(queue),
        verdict=None if verdict is None else read_json(Verdict, verdict),
        decided=None if decided is None else datetime.fromisoformat(decided),
        person=None if uid is None else Person(uid=uid, tty=tty),
    )


def _decide(database: "Connection", question_id: str, status: Status, verdict: Verdict, person: Person) -> None:
    now = _now().isoformat()
    database.execute(
        "UPDATE questions SET status = ?, verdict = ?, decided = ?, uid = ?, tty = ?"
        " WHERE id = ? AND status = 'pending'",
        [status, verdict.model_dump_json(), now, person.uid, person.tty, question_id],
    )
    if verdict.allowed and verdict.scope == "pattern":
        database.execute(
            "INSERT INTO remembered (pattern, approved, uid, tty) VALUES (?, ?, ?, ?)",
            [verdict.pattern, now, person.uid, person.tty],
        )


def _require_open(entry: QueuedQuestion) -> None:
    """Refuse a question that can't be answered any more, or not through the queue. Raises Denied if it can't."""
    name = entry.question.id
    match entry.status:
        case "pending" if entry.in_queue:
            return
        case "pending":
            raise Denied(
                "not_in_queue",
                f"{name} is not for the queue.",
                hint="Answer it in the client, or name `queue` in approvals.channels.",
            )
        case "gone":
            raise Denied("server_gone", f"The server that asked {name} has ended.", hint="Run the program again.")
        case "expired":
            raise Denied("expired", f"{name} has run out: the answer was no.", hint="Run the program again.")
        case "cancelled":
            raise Denied("cancelled", f"The run that asked {name} is over.")
        case "allowed" | "denied":
            by = entry.verdict.by if entry.verdict else ""
            raise Denied("already_answered", f"{name} is {entry.status} already, by {by}.")


def _unknown_question(question: str) -> Denied:
    return Denied(
        "unknown_question",
        f"There is no question {quote_sent(question)}.",
        hint="See `gloveport approvals list --all`.",
    )
