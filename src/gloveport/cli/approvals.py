"""``gloveport approvals``: shows the questions that programs wait for, and takes the owner's answers.

Programs and servers wrote these texts, so all of them are escaped for the terminal.
"""

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.cli.folded_lines import echo_lines
from gloveport.cli.options import AsJson, ConfigOption, Yes, confirm, recording
from gloveport.untrusted_text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gloveport.approvals.question import Scope, Verdict
    from gloveport.approvals.store import Person, QueuedQuestion, Store

app = typer.Typer()

Identifiers: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Of `list`; their first digits are enough.")
]


class Holds(StrEnum):
    """For how long an approval holds."""

    ONCE = "once"
    RUN = "run"
    SESSION = "session"


_SCOPES: "Mapping[Holds, Scope]" = {Holds.ONCE: "once", Holds.RUN: "run", Holds.SESSION: "session"}


@app.callback(invoke_without_command=True)
def approvals(context: typer.Context) -> None:
    """Answer what programs wait for; without a command, print it. Without an answer in time, the answer is no."""
    if context.invoked_subcommand is None:
        list_()


@app.command("list")
def list_(
    as_json: AsJson = False,
    every: Annotated[bool, typer.Option("--all", help="Also what is over, for a week.")] = False,
) -> None:
    """Print the questions that wait, the oldest first."""
    store = _store()
    found = [one for one in (store.entries() if store.exists else ()) if every or one.status == "pending"]
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in found]))
    elif found:
        for number, one in enumerate(found):
            echo_lines(["", *_question_lines(one)] if number else _question_lines(one))
    else:
        typer.echo("Nothing waits for an answer.")


@app.command()
def approve(
    identifiers: Identifiers,
    holds: Annotated[
        Holds,
        typer.Option(
            "--for",
            help="Also for the same again: the tool or address, WHATEVER the arguments are; of a permission (`permit`) "
            "this very call alone, until its time is over, if one for the session was asked for.",
        ),
    ] = Holds.ONCE,
    pattern: Annotated[
        str,
        typer.Option(
            "--always",
            metavar="PATTERN",
            help='For all that it means of the line `about`, such as "call files/*", until it is forgotten. In a '
            "command * stands for none of ; | & # < >, an end of a line, a backtick, $( ${ $[: what is appended is "
            "asked about. Of a change of several files each has to be meant.",
        ),
    ] = "",
    yes: Yes = False,
) -> None:
    """Allow what a program waits for, as it is printed now: this once, or for longer."""
    from gloveport.approvals.question import Verdict

    if pattern and holds is not Holds.ONCE:
        raise typer.BadParameter("give --for or --always, not both")
    scope: Scope = "pattern" if pattern else _SCOPES[holds]
    verdict = Verdict(allowed=True, by=_by(_person()), scope=scope, pattern=pattern)
    for identifier in identifiers:
        found = _store().find(identifier)
        for one in _store().entries():
            if one.question.id == found:
                echo_lines(_question_lines(one))
        if not yes:
            confirm("allow this?")
        _answer(found, verdict)


@app.command()
def deny(identifiers: Identifiers) -> None:
    """Refuse what a program waits for, this once."""
    from gloveport.approvals.question import Verdict

    for identifier in identifiers:
        _answer(_store().find(identifier), Verdict(allowed=False, by=_by(_person())))


@app.command("remembered")
def print_remembered(as_json: AsJson = False) -> None:
    """Print the patterns that were approved with --always."""
    store = _store()
    found = store.list_remembered() if store.exists else ()
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in found]))
    echo_lines(
        printable(f"{one.number}  {one.pattern}  ({_moment(one.approved)}, {_by(one.person)})")
        for one in (() if as_json else found)
    )
    if not found and not as_json:
        typer.echo("Nothing is remembered.")


@app.command()
def forget(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of `remembered`.")], config: ConfigOption = None
) -> None:
    """Let a pattern hold no longer."""
    with recording(config) as record:
        pattern = _store().forget(number)
        record("approval.forgotten", {"pattern": pattern})
    typer.echo(printable(f"forgotten: {pattern}"))


def _answer(found: str, verdict: "Verdict") -> None:
    store = _store()
    question = store.answer(found, verdict, _person())
    longer = {"once": "", "run": " for this run", "session": " for this session", "pattern": " until it is forgotten"}
    outcome = f"allowed{longer[verdict.scope]}" if verdict.allowed else "denied"
    typer.echo(printable(f"{outcome}: {verdict.pattern or question.subject} ({question.id})"))


def _store() -> "Store":
    from gloveport.approvals.store import Store
    from gloveport.config import state_directory

    return Store(state_directory(os.environ) / "approvals")


def _person() -> "Person":
    from gloveport.approvals.store import Person

    try:
        tty = os.ttyname(sys.stdin.fileno())
    except (OSError, ValueError):  # no terminal, or closed
        tty = ""
    return Person(uid=os.getuid(), tty=tty)


def _by(person: "Person") -> str:
    return f"gloveport approvals (uid {person.uid}{f', {person.tty}' if person.tty else ''})"


def _question_lines(entry: "QueuedQuestion") -> "Iterator[str]":
    question = entry.question
    lines = [
        f"{question.id}  {_standing(entry)}",
        f"  {question.text}",
        *(f"  | {line}" for line in question.detail.split("\n") if line),
        f"  about: {question.subject}",
        f"  asked: {_moment(question.asked)} by {question.run} for {question.caller}",
    ]
    return map(printable, lines)


def _standing(entry: "QueuedQuestion") -> str:
    remaining_seconds = max(0, int((entry.question.expires - datetime.now(UTC)).total_seconds()))
    match entry.status:
        case "pending" if entry.in_queue:
            return f"waits for {remaining_seconds} s more"
        case "pending":
            return f"waits for {remaining_seconds} s more, for an answer in the client alone"
        case "gone":
            return "its server has ended"
        case status:
            return f"{status} by {entry.verdict.by}" if entry.verdict and entry.verdict.by != status else status


def _moment(moment: datetime) -> str:
    return moment.astimezone().isoformat(sep=" ", timespec="seconds")
