"""The command: what it shows a person, and what it writes down of them."""

import json
import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests import forked
from tests.cli.terminals import columns_of, lines_on_terminal
from typer.testing import CliRunner, Result

from gloveport.approvals.database import FILE_NAME
from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Store
from gloveport.cli.approvals import app
from gloveport.errors import GloveportError
from gloveport.model.hub import CallTool
from gloveport.model.workspace import RunCommand
from gloveport.policy.decisions.subjects import detail_of, permission_subject, subject_of

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202edenied\u2028\ud800\x9b31m[bold red]\x7f"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "approvals")


def gloveport(store: Store, *arguments: str) -> str:
    """What a command says that succeeds."""
    done = _run(store, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def refusal(store: Store, *arguments: str) -> str:
    """What a command says that does not."""
    done = _run(store, arguments)
    assert done.exit_code != 0
    return str(done.exception) if isinstance(done.exception, GloveportError) else done.stderr


def _run(store: Store, arguments: tuple[str, ...]) -> Result:
    return CliRunner().invoke(app, arguments, env={"GLOVEPORT_STATE": str(store.directory.parent)})


def put(
    store: Store, number=0xABCD, *, tool="create_issue", seconds=60.0, caller="test", session="here", **arguments
) -> Question:
    store.create()
    action = CallTool(server="github", tool=tool, arguments=arguments)
    now = datetime.now(UTC)
    asked = Question(
        id=f"apr-{number:016x}",
        run="run-1",
        caller=caller,
        session=session,
        subject=subject_of(action),
        text="May it?",
        detail=detail_of(action),
        asked=now,
        expires=now + timedelta(seconds=seconds),
    )
    store.put(asked, in_queue=True)
    return asked


def test_where_nothing_was_ever_asked_nothing_is_made(store):
    assert gloveport(store, "list") == "Nothing waits for an answer.\n"
    assert gloveport(store, "remembered") == "Nothing is remembered.\n"
    assert json.loads(gloveport(store, "list", "--json")) == []
    assert json.loads(gloveport(store, "remembered", "--json")) == []
    assert not store.exists


def test_the_list_tells_exactly_what_would_be_done(store):
    """H8 O1."""
    question = put(store, title="A bug", labels=["a", "b"])
    lines = gloveport(store, "list").splitlines()
    assert lines[0].startswith(f"{question.id}  waits for ")
    assert lines[1:5] == [
        "  May it?",
        '  | "title": "A bug"',
        '  | "labels": ["a", "b"]',
        "  about: call github/create_issue",
    ]
    assert lines[5].endswith("by run-1 for test")
    (entry,) = json.loads(gloveport(store, "list", "--json"))
    assert (entry["question"]["id"], entry["status"]) == (question.id, "pending")


def test_what_is_over_is_listed_on_demand(store):
    put(store, 1)
    put(store, 2, seconds=-1)
    gloveport(store, "deny", "apr-0000000000000001")
    assert gloveport(store, "list") == "Nothing waits for an answer.\n"
    said = gloveport(store, "list", "--all")
    assert f"apr-0000000000000001  denied by gloveport approvals (uid {os.getuid()})" in said
    assert "apr-0000000000000002  expired" in said


@pytest.mark.parametrize(
    ("options", "scope", "said"),
    [
        ((), "once", "allowed: call github/create_issue"),
        (("--for", "once"), "once", "allowed: "),
        (("--for", "run"), "run", "allowed for this run: "),
        (("--for", "session"), "session", "allowed for this session: "),
        (("--always", "call github/create_*"), "pattern", "allowed until it is forgotten: call github/create_*"),
    ],
)
def test_an_approval_holds_for_as_long_as_it_says(store, options, scope, said):
    """H8: approve once, for this run, for this session, for this pattern."""
    question = put(store)
    assert said in gloveport(store, "approve", "--yes", question.id[:12], *options)
    (entry,) = store.entries()
    assert entry.verdict is not None
    assert (entry.verdict.allowed, entry.verdict.scope) == (True, scope)


def test_who_has_answered_is_written_down(store):
    """H8 T6: uid and terminal."""
    put(store)
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    environ = {**os.environ, "GLOVEPORT_STATE": str(store.directory.parent)}
    words = ("approvals", "approve", "--yes", "abcd".rjust(16, "0"), "--always", "call github/*")
    command = forked.command("gloveport", *words)
    subprocess.run(command, check=True, env=environ, stdin=theirs, capture_output=True)
    again = subprocess.run(command, check=False, env=environ, stdin=theirs, capture_output=True, text=True)
    assert again.returncode == 3
    assert again.stderr.startswith("gloveport: apr-000000000000abcd is allowed already, by gloveport approvals (uid ")
    os.close(theirs)
    os.close(ours)
    (entry,), (kept,) = store.entries(), store.list_remembered()
    assert entry.person is not None
    assert (entry.person.uid, entry.person.tty) == (os.getuid(), name)
    assert kept.person == entry.person
    assert entry.verdict is not None
    assert entry.verdict.by == f"gloveport approvals (uid {os.getuid()}, {name})"
    assert f"1  call github/*  ({entry.decided.astimezone().isoformat(sep=' ', timespec='seconds')}, " in (
        gloveport(store, "remembered")
    )


def test_what_is_remembered_can_be_forgotten(store):
    question = put(store)
    gloveport(store, "approve", "--yes", question.id, "--always", "call github/*")
    assert json.loads(gloveport(store, "remembered", "--json"))[0]["pattern"] == "call github/*"
    assert gloveport(store, "forget", "1") == "forgotten: call github/*\n"
    assert "hint: " in refusal(store, "forget", "1")


def test_what_can_not_be_answered_any_more_is_an_error_that_says_why(store):
    """H8."""
    question = put(store)
    store.settle(question.id, "expired", Verdict(allowed=False, by="timeout"))
    assert "has run out: the answer was no" in refusal(store, "approve", "--yes", question.id)
    assert "is no id" in refusal(store, "approve", "' OR 1=1 --")
    assert "not both" in refusal(store, "approve", question.id, "--for", "run", "--always", "x")
    assert store.entries()[0].status == "expired"


def test_a_pattern_that_does_not_mean_the_question_is_refused_with_what_it_is_about(store):
    question = put(store)
    said = refusal(store, "approve", "--yes", question.id, "--always", "*")
    assert "call github/create_issue" in said
    assert store.entries()[0].status == "pending"


def test_nothing_that_a_program_sends_reaches_the_terminal_unescaped(store):
    """P14 H8: escapes, bidirectional overrides, lines that look like another question."""
    forged = "\n\napr-0000000000000009  waits for 9 s more\n  May it read the weather?"
    put(store, tool=f"t{HOSTILE}{forged}", caller=HOSTILE.encode("ascii", "replace").decode(), **{HOSTILE: forged})
    for arguments in (("list",), ("list", "--all"), ("list", "--json")):
        said = gloveport(store, *arguments)
        assert all(line.isprintable() and line.isascii() for line in said.splitlines())
        assert not any(line.startswith("apr-0000000000000009") for line in said.splitlines())
        assert said.count("\n") == (1 if "--json" in arguments else 5)
    said = gloveport(store, "approve", "--yes", "000000000000abcd", "--for", "run")
    assert said.count("\n") == 6
    assert all(line.isprintable() for line in said.splitlines())


def test_a_damaged_file_is_a_clear_error(store):
    """T3."""
    put(store)
    (store.directory / FILE_NAME).write_bytes(b"x" * 4096)
    for arguments in (("list",), ("approve", "abcdabcd"), ("remembered",), ("forget", "1")):
        said = refusal(store, *arguments)
        assert "is damaged" in said
        assert "hint: move it away" in said


def test_who_asks_without_a_session_is_approved_for_none(store):
    """H8: on 2026-07-28 over HTTP nobody is told from others."""
    question = put(store, session="")
    assert _run(store, ("approve", "--yes", question.id, "--for", "session")).exit_code != 0
    assert _run(store, ("approve", "--yes", question.id, "--for", "run")).exit_code == 0


def test_who_is_no_person_at_a_terminal_reads_the_question_and_approves_nothing(store):
    """H8, P23: an agent that is handed the command line runs it without a terminal."""
    question = put(store, path="/etc")
    done = _run(store, ("approve", question.id))
    assert "hint: read what is printed, then write --yes" in str(done.exception)
    assert store.entries()[0].status == "pending"
    for said in (done.stdout, gloveport(store, "approve", "--yes", question.id)):
        for line in ("  May it?", '  | "path": "/etc"', "  about: call github/create_issue"):
            assert line in said.splitlines()


@pytest.mark.parametrize(("typed", "status"), [(b"y\n", "allowed"), (b"n\n", "pending"), (b"\n", "pending")])
def test_a_person_at_a_terminal_reads_the_question_before_they_answer(store, typed, status):
    """H8, P23."""
    question = put(store, path="/etc")
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    environ = {**os.environ, "GLOVEPORT_STATE": str(store.directory.parent)}
    command = forked.command("gloveport", "approvals", "approve", question.id)
    done = subprocess.run(command, check=False, env=environ, stdin=theirs, capture_output=True, text=True)
    os.close(theirs)
    os.close(ours)
    assert '  | "path": "/etc"' in done.stdout.splitlines()
    assert "allow this? [y/N]" in done.stdout
    assert store.entries()[0].status == status


def test_several_questions_are_answered_each_as_it_is(store):
    """H8: a client is handed the ids of all that wait."""
    one, other, third = put(store, 0xA1), put(store, 0xB2, tool="close_issue"), put(store, 0xC3)
    said = gloveport(store, "approve", "--yes", one.id, other.id)
    assert said.index("about: call github/create_issue") < said.index("allowed: call github/create_issue")
    assert said.index("allowed: call github/create_issue") < said.index("about: call github/close_issue")
    gloveport(store, "deny", third.id)
    assert [entry.status for entry in store.entries()] == ["allowed", "allowed", "denied"]


def test_no_argument_forges_a_line_by_its_length(store):
    """P14 H8: a terminal goes on at the left where a line is too long for it; some characters take two columns."""
    for padding in range(60, 70):
        put(store, padding, note=f"{' ' * padding}about: call github/read_issue{' ' * 100}x")
        wide = f"{'漢' * 20}{' ' * (padding - 40)}"
        put(store, 100 + padding, note=f"{wide}about: call github/read_issue{' ' * 100}x")
    lines = lines_on_terminal({"GLOVEPORT_STATE": str(store.directory.parent)}, "approvals", "list")
    assert max(map(columns_of, lines)) == 80
    assert [line for line in lines if line.lstrip().startswith("about:")] == ["  about: call github/create_issue"] * 20


def test_without_a_command_the_questions_are_printed(store):
    """O1: as the documentation has it."""
    assert gloveport(store) == "Nothing waits for an answer.\n"
    question = put(store)
    assert gloveport(store).startswith(f"{question.id}  waits for ")


def test_what_was_cancelled_is_not_said_to_be_cancelled_by_cancelled(store):
    """O1."""
    question = put(store)
    store.settle(question.id, "cancelled", Verdict(allowed=False, by="cancelled"))
    assert gloveport(store, "list", "--all").splitlines()[0] == f"{question.id}  cancelled"


def test_the_help_tells_what_longer_approvals_hold_for(store, monkeypatch):
    """H8, O1: of a permission, and of a pattern of commands."""
    monkeypatch.setenv("COLUMNS", "1000")
    said = " ".join(gloveport(store, "approve", "--help").replace("│", " ").split())
    assert "this very call alone" in said
    assert "In a command * stands for none of ; | &" in said


def test_a_pattern_is_approved_for_what_stands_in_it_and_not_for_what_is_appended(store):
    """H8, W5: the attack of the review; the hint says what `*` does not stand for."""
    store.create()
    now = datetime.now(UTC)
    action = RunCommand(command="git clean -n; rm -rf src")
    asked = Question(
        id="apr-00000000000000aa",
        run="run-1",
        caller="test",
        session="",
        subject=permission_subject("destructive_command", action),
        text="May it?",
        asked=now,
        expires=now + timedelta(seconds=60),
    )
    store.put(asked, in_queue=True)
    pattern = "permit destructive_command command *: git%20clean*"
    assert "none of `; | & # < >`" in refusal(store, "approve", "--yes", asked.id, "--always", pattern)
    assert gloveport(store, "approve", "--yes", asked.id, "--always", f"{pattern}%3B%20rm*").endswith(f"({asked.id})\n")
