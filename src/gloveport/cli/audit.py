"""``gloveport audit``: verifies, prints, searches and exports the audit log.

Callers and programs wrote the texts in the log, so all of them are escaped for terminals and spreadsheets.
"""

import csv
import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.cli.config_loading import load_config
from gloveport.cli.folded_lines import echo_lines
from gloveport.cli.options import AsJson, escape_unencodable
from gloveport.untrusted_text import printable

if TYPE_CHECKING:
    from gloveport.audit.read import Damaged
    from gloveport.audit.record import Record
    from gloveport.audit.verify import Verification
    from gloveport.model.json_value import JsonValue

POLL_SECONDS = 0.2
VALUE_CHARACTERS = 200
ROW = ("time", "seq", "kind", "caller", "run", "fields")

app = typer.Typer(no_args_is_help=True)

_WORD = re.compile(r"[\w./:@+-]+")
# At the beginning, and behind a semicolon, which is the separator where the comma is that of decimals.
_FORMULA = re.compile(r"""(?:\A|(?<=;))(?=[\s"']*[=+\-@\uff1d\uff0b\uff0d\uff20])""")


class Format(StrEnum):
    """What ``export`` writes."""

    JSONL = "jsonl"
    CSV = "csv"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time, such as 2026-01-31T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Directory: TypeAlias = Annotated[
    Path | None, typer.Option("--directory", metavar="PATH", help="The log's directory, if not the usual one.")
]
Moment: TypeAlias = Annotated[datetime | None, typer.Option(parser=_moment, metavar="TIME")]


@app.callback()
def audit() -> None:
    """Verify, read and export the audit log. Exit code 1: a line does not verify; 2: the log can't be read."""
    escape_unencodable()


@app.command()
def verify(directory: Directory = None, as_json: AsJson = False) -> None:
    """Check every line and the head; name what was altered, removed, moved, inserted or cut."""
    from gloveport.audit.verify import verify as verify_log

    with _unreadable_is_2():
        outcome = verify_log(_directory(directory))
    if as_json:
        typer.echo(json.dumps(_as_json(outcome)))
    else:
        for problem in outcome.problems:
            typer.echo(str(problem))
        typer.echo(_summary(outcome))
    raise typer.Exit(1 if outcome.problems else 0)


@app.command()
def tail(
    directory: Directory = None,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many records.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with records as they are written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the last records."""
    from gloveport.audit.read import Follower

    damaged: list[Damaged] = []
    with _unreadable_is_2():
        follower = Follower(_directory(directory), last=lines)
        if not follow:
            _show(_sound(follower.poll(), damaged), as_json)
        while follow:
            try:
                _show_lines(_sound(follower.poll(), damaged), as_json)
                time.sleep(POLL_SECONDS)
            except KeyboardInterrupt:
                break
    raise typer.Exit(1 if damaged else 0)


@app.command()
def query(  # noqa: PLR0913, PLR0917 - a parameter is an option
    directory: Directory = None,
    kind: Annotated[str | None, typer.Option(help="Kind, or its first parts: execute matches execute.denied.")] = None,
    run: Annotated[str | None, typer.Option(help="Run id.")] = None,
    caller: Annotated[str | None, typer.Option(help="Caller.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Outcome or status.")] = None,
    since: Moment = None,
    until: Moment = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest so many.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the records that match, oldest first. Times are ISO 8601, UTC where they name no zone."""
    from gloveport.audit import read

    criteria = read.Filter(kind=kind, run=run, caller=caller, outcome=outcome, since=since, until=until)
    damaged: list[Damaged] = []
    with _unreadable_is_2():
        found = _sound(read.query(_directory(directory), criteria), damaged)
        _show(deque(found, maxlen=limit) if limit else found, as_json)
    raise typer.Exit(1 if damaged else 0)


@app.command()
def export(
    directory: Directory = None,
    form: Annotated[Format, typer.Option("--format", help="Lines as they stand, or a table.")] = Format.JSONL,
) -> None:
    """Write the whole log to standard output."""
    from gloveport.audit.read import records
    from gloveport.audit.record import Record

    damaged: list[Damaged] = []
    with _unreadable_is_2():
        place = _directory(directory)
        if form is Format.JSONL:
            _show_lines(_sound(records(place), damaged), as_json=True)
        else:
            # Read twice: the first time finds the columns. Records that are written meanwhile wait for the next export.
            columns, last = {}, 0
            for record in _sound(records(place), damaged):
                columns.update(dict.fromkeys(_flat(record.fields)))
                last = record.seq
            again = (entry for entry in records(place) if isinstance(entry, Record) and entry.seq <= last)
            _write_csv(again, sorted(columns))
    raise typer.Exit(1 if damaged else 0)


def _directory(directory: Path | None) -> Path:
    """Return the directory, or the configured one without it."""
    from gloveport.config import audit_directory

    return directory or audit_directory(load_config(None), os.environ)


@contextmanager
def _unreadable_is_2() -> Iterator[None]:
    from gloveport.errors import AuditError, ConfigError

    try:
        yield
    except (AuditError, ConfigError) as error:
        for line in str(error).splitlines():
            typer.echo(printable(line), err=True)
        raise typer.Exit(2) from error


def _sound(entries: "Iterable[Record | Damaged]", damaged: "list[Damaged]") -> "Iterator[Record]":
    """Pass records on; collect damaged lines, and name each on standard error once."""
    from gloveport.audit.read import Damaged

    for entry in entries:
        if isinstance(entry, Damaged):
            typer.echo(str(entry), err=True)
            damaged.append(entry)
        else:
            yield entry


def _summary(outcome: "Verification") -> str:
    head = outcome.head
    if outcome.problems:
        count = len(outcome.problems)
        return (
            f"not verified: {count} problem{'' if count == 1 else 's'} in {outcome.lines} lines, {outcome.files} files"
        )
    end = f", the last is seq {head.seq}, hash {head.hash}" if head else ""
    rest = f"; {outcome.unfinished_bytes} bytes of an unfinished line follow" if outcome.unfinished_bytes else ""
    archived = outcome.archived
    before = f"; those up to seq {archived.seq}, hash {archived.hash}, were removed for their size" if archived else ""
    return f"verified: {outcome.lines} records in {outcome.files} files{end}{before}{rest}"


def _as_json(outcome: "Verification") -> dict[str, object]:
    from gloveport.audit.log_files import HEAD_NAME, file_name

    problems = [
        {
            "kind": problem.kind,
            "file": file_name(problem.place.file) if problem.place else HEAD_NAME,
            "line": problem.place.line if problem.place else None,
            "lines": problem.lines,
            "seq": problem.seq,
            "detail": problem.detail,
        }
        for problem in outcome.problems
    ]
    head = {"seq": outcome.head.seq, "hash": outcome.head.hash} if outcome.head else None
    return {
        "verified": not problems,
        "files": outcome.files,
        "lines": outcome.lines,
        "head": head,
        "archived": {"seq": outcome.archived.seq, "hash": outcome.archived.hash} if outcome.archived else None,
        "unfinished_bytes": outcome.unfinished_bytes,
        "problems": problems,
    }


def _show(records: "Iterable[Record]", as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        _show_lines(records, as_json)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(
        *(Column(name, no_wrap=name in {"time", "seq"}, overflow="fold") for name in ROW), box=box.SIMPLE_HEAD
    )
    for record in records:
        rest = {name: value for name, value in record.fields.items() if name not in {"caller", "run"}}
        cells = [_word(record.fields[name]) if name in record.fields else "" for name in ("caller", "run")]
        # Text, not str: rich would read markup in a logged value.
        row = [_time(record), str(record.seq), record.kind, *cells, _pairs(rest)]
        table.add_row(*map(Text, row))
    Console().print(table)


def _show_lines(records: "Iterable[Record]", as_json: bool) -> None:
    if as_json:
        for record in records:
            typer.echo(record.line)  # ASCII, with every control character escaped
        return
    echo_lines(f"{_time(record)} {record.seq} {record.kind} {_pairs(record.fields)}" for record in records)


def _time(record: "Record") -> str:
    from gloveport.audit.record import stamp

    return stamp(record.time)


def _pairs(fields: "Mapping[str, JsonValue]") -> str:
    return " ".join(f"{_word(name)}={_word(value)}" for name, value in fields.items())


def _word(value: "JsonValue") -> str:
    """Write a value on one line, quoted unless it is a plain word, escaped and shortened."""
    plain = isinstance(value, str) and _WORD.fullmatch(value)
    text = printable(str(value) if plain else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}… ({len(text)} characters)"


def _write_csv(records: "Iterable[Record]", columns: list[str]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["seq", "time", "kind", *map(_cell, columns), "prev", "hash"])
    for record in records:
        flat = _flat(record.fields)
        cells = [_cell(flat.get(name)) for name in columns]
        writer.writerow([record.seq, _time(record), record.kind, *cells, record.prev, record.hash])


def _flat(fields: "Mapping[str, JsonValue]", prefix: str = "") -> "dict[str, JsonValue]":
    """Join the names of nested objects by dots; a dot in a name gets a backslash."""
    flat: dict[str, JsonValue] = {}
    for name, value in fields.items():
        path = prefix + name.replace("\\", "\\\\").replace(".", "\\.")
        if isinstance(value, dict) and value:
            flat.update(_flat(value, f"{path}."))
        else:
            flat[path] = value
    return flat


def _cell(value: "JsonValue") -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return json.dumps(value)
    # A spreadsheet would execute text that begins like a formula.
    return _FORMULA.sub("'", printable(value) if isinstance(value, str) else json.dumps(value))
