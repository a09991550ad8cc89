"""The file that questions and answers are kept in."""

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gloveport.approvals import database
from gloveport.approvals import store as store_module
from gloveport.approvals.database import FILE_NAME
from gloveport.approvals.process import birth_of
from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Person, Store
from gloveport.errors import ConfigError, Denied

YES, NO = Verdict(allowed=True, by="queue"), Verdict(allowed=False, by="queue")
ME = Person(uid=os.geteuid(), tty="/dev/pts/7")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "state" / "approvals")
    made.create()
    return made


def question(number=1, *, subject="call s/t", seconds=60.0, **fields) -> Question:
    now = datetime.now(UTC)
    return Question(
        id=f"apr-{number:016x}",
        run="run-1",
        caller="test",
        session="",
        subject=subject,
        text="May it?",
        asked=now,
        expires=now + timedelta(seconds=seconds),
        **fields,
    )


def put(store: Store, number=1, **fields) -> Question:
    asked = question(number, **fields)
    store.put(asked, in_queue=True)
    return asked


def statuses(store: Store) -> list[str]:
    return [entry.status for entry in store.entries()]


def test_file_and_directory_are_their_owners_alone_whatever_the_umask(tmp_path):
    """H8: who can write it, can approve."""
    before = os.umask(0)
    try:
        store = Store(tmp_path / "state" / "approvals")
        store.create()
        put(store)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (store.directory, store.directory / FILE_NAME)}
    assert [*modes.values()] == [0o700, 0o600]
    assert [path.name for path in store.directory.iterdir()] == [FILE_NAME]
    assert stat.S_IMODE(store.directory.parent.stat().st_mode) == 0o700


def test_what_is_asked_is_there_for_others_as_it_was_asked(store):
    """H8."""
    asked = put(store, detail='"a": "\x1b[2J"')
    (entry,) = Store(store.directory).entries()
    assert (entry.question, entry.status, entry.verdict) == (asked, "pending", None)


def test_an_answer_stands_with_who_gave_it_and_when(store):
    """H8 T6: uid, terminal, time."""
    before = datetime.now(UTC)
    assert store.answer(put(store).id, YES, ME) == store.entries()[0].question
    (entry,) = store.entries()
    assert (entry.status, entry.verdict, entry.person) == ("allowed", YES, ME)
    assert before <= entry.decided <= datetime.now(UTC)
    assert store.news([entry.question.id]) == ({entry.question.id: YES}, ())


def test_a_question_is_answered_once(store):
    """H8."""
    asked = put(store)
    store.answer(asked.id, NO, ME)
    with pytest.raises(Denied) as caught:
        store.answer(asked.id, YES, ME)
    assert caught.value.code == "already_answered"
    assert store.settle(asked.id, "allowed", YES) == NO
    assert statuses(store) == ["denied"]


def test_of_many_approvers_at_once_one_succeeds(store):
    """H8: several processes and threads share the file."""
    asked = put(store)
    outcomes: list[str] = []
    ready = threading.Barrier(8)

    def approve(number: int) -> None:
        ready.wait()
        try:
            store.answer(asked.id, YES if number % 2 else NO, Person(uid=number))
            outcomes.append(f"{number}")
        except Denied as denial:
            outcomes.append(denial.code)

    threads = [threading.Thread(target=approve, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[1:] == ["already_answered"] * 7
    assert f"{store.entries()[0].person.uid}" in outcomes


@pytest.mark.parametrize(("status", "verdict"), [("expired", NO), ("cancelled", NO)])
def test_what_is_over_can_not_be_approved(store, status, verdict):
    """H8, P23."""
    asked = put(store)
    assert store.settle(asked.id, status, verdict) == verdict
    with pytest.raises(Denied) as caught:
        store.answer(asked.id, YES, ME)
    assert caught.value.code == status
    assert statuses(store) == [status]


def test_what_has_run_out_can_not_be_approved_though_its_server_has_not_noticed(store):
    """H8: no answer in time is a denial."""
    asked = put(store, seconds=-0.001)
    assert statuses(store) == ["expired"]
    with pytest.raises(Denied, match="has run out"):
        store.answer(asked.id, YES, ME)


def test_a_question_of_a_dead_server_can_not_be_approved(store):
    """H8, P23: nobody would hear it."""
    asked = question().model_dump_json()
    code = (
        "import sys; from pathlib import Path; from gloveport.approvals.store import *;"
        "from gloveport.model.reading import read_json;"
        "Store(Path(sys.argv[1])).put(read_json(Question, sys.argv[2]), in_queue=True)"
    )
    subprocess.run([sys.executable, "-c", code, str(store.directory), asked], check=True)
    assert statuses(store) == ["gone"]
    with pytest.raises(Denied, match="has ended") as caught:
        store.answer(question().id, YES, ME)
    assert caught.value.code == "server_gone"


def test_a_process_is_known_by_its_birth_not_by_its_number_alone():
    assert birth_of(os.getpid()) == birth_of(os.getpid())
    assert birth_of(os.getpid()) != birth_of(1)
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert birth_of(child.pid) == ""  # dead, though its number is not free yet
    child.wait()
    assert birth_of(child.pid) == ""


def test_what_is_not_for_the_queue_is_shown_and_not_answered_there(store):
    """H8: `channels`."""
    asked = question()
    store.put(asked, in_queue=False)
    with pytest.raises(Denied) as caught:
        store.answer(asked.id, YES, ME)
    assert caught.value.code == "not_in_queue"
    assert store.settle(asked.id, "allowed", YES) == YES


def test_a_pattern_is_remembered_until_it_is_forgotten(store):
    """H8: approve for this pattern."""
    always = YES.model_copy(update={"scope": "pattern", "pattern": "call s/*"})
    store.answer(put(store).id, always, ME)
    (kept,) = store.list_remembered()
    assert (kept.pattern, kept.person) == ("call s/*", ME)
    assert store.news(()) == ({}, ("call s/*",))
    assert store.forget(kept.number) == "call s/*"
    assert store.list_remembered() == ()
    with pytest.raises(Denied, match="Nothing is remembered as number"):
        store.forget(kept.number)


@pytest.mark.parametrize("pattern", ["", "*", "call*", "call other/*", "call s/T", "fetch *", "%", "call s/_"])
def test_a_pattern_that_does_not_mean_the_question_is_not_remembered_and_approves_nothing(store, pattern):
    asked = put(store)
    with pytest.raises(Denied) as caught:
        store.answer(asked.id, YES.model_copy(update={"scope": "pattern", "pattern": pattern}), ME)
    assert caught.value.code == "pattern_does_not_match"
    assert statuses(store) == ["pending"]
    assert store.list_remembered() == ()


def test_a_pattern_that_was_given_with_a_denial_is_not_remembered(store):
    store.answer(put(store).id, NO.model_copy(update={"scope": "pattern", "pattern": "call s/*"}), ME)
    assert store.list_remembered() == ()


def test_an_id_may_be_cut_short_where_it_is_clear(store):
    put(store, 0xABCD_0000_0000_0001)
    put(store, 0xABCD_0000_0000_0002)
    put(store, 0xABCE_0000_0000_0001)
    assert store.find("abce") == "apr-abce000000000001"
    assert store.find("apr-abce0") == "apr-abce000000000001"
    assert store.find("apr-abcd000000000002") == "apr-abcd000000000002"
    for prefix, code in (("abcd", "several_ids"), ("abcf", "unknown_question"), ("abc", "no_id")):
        with pytest.raises(Denied) as caught:
            store.find(prefix)
        assert caught.value.code == code


def test_a_short_id_never_comes_to_mean_another_question(store):
    """H8: what is over counts too."""
    over = put(store, 0xABCD_0000_0000_0001)
    store.settle(over.id, "cancelled", NO)
    assert store.find("abcd") == over.id


HOSTILE = [
    "' OR '1'='1",
    "apr-%",
    "apr-____",
    "*",
    "",
    "apr-",
    "aprx'; DROP TABLE questions; --",
    "\x00\x00\x00\x00",
    "é" * 9,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_an_id_is_taken_for_a_command(store, text):
    """H8: SQL, wildcards."""
    put(store)
    with pytest.raises(Denied) as caught:
        store.find(text)
    assert str(caught.value).replace("\n", "").isprintable()
    with pytest.raises(Denied, match="There is no question"):
        store.answer(text, YES, ME)
    assert store.settle(text, "allowed", YES) == YES
    verdicts, patterns = store.news([text])
    assert (verdicts[text].allowed, patterns) == (False, ())
    assert statuses(store) == ["pending"]


def test_nothing_that_a_program_says_is_taken_for_a_command(store):
    text = "'); DROP TABLE questions; --\x00\u202e"
    asked = put(store, subject=text, detail=text)
    assert store.entries()[0].question == asked


def test_what_is_over_is_forgotten_when_it_is_old_or_too_much(store, monkeypatch):
    """P8: a program that asks and goes away fills no disk."""
    monkeypatch.setattr(store_module, "MOST_KEPT", 3)
    put(store, 99, seconds=-8 * 86_400)
    for number in range(6):
        store.settle(put(store, number).id, "cancelled", NO)
    put(store, 7)
    assert [entry.question.id[-1] for entry in store.entries()] == ["3", "4", "5", "7"]


def test_no_answer_is_forgotten_for_questions_that_were_asked_later(store, monkeypatch):
    """P8: a program that asks and goes away takes nobody's answer from whoever waits for it."""
    monkeypatch.setattr(store_module, "MOST_KEPT", 3)
    asked = put(store)
    for number in range(2, 8):
        store.settle(put(store, number).id, "cancelled", NO)
    store.answer(asked.id, YES, ME)
    put(store, 8)
    verdicts, _ = store.news([asked.id])
    assert verdicts == {asked.id: YES}


def test_a_directory_that_is_not_there_is_a_clear_error(tmp_path):
    store = Store(tmp_path / "approvals")
    assert not store.exists
    with pytest.raises(ConfigError, match="can't be opened: No such file or directory"):
        store.entries()


def linked_directory(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.symlink_to("elsewhere")


def linked_file(directory: Path) -> None:
    (directory / FILE_NAME).rename(directory / "other")
    (directory / FILE_NAME).symlink_to("other")


def second_name(directory: Path) -> None:
    (directory / "other").hardlink_to(directory / FILE_NAME)


def open_directory(directory: Path) -> None:
    directory.chmod(0o750)


def open_file(directory: Path) -> None:
    (directory / FILE_NAME).chmod(0o604)


def fifo(directory: Path) -> None:
    (directory / FILE_NAME).unlink()
    os.mkfifo(directory / FILE_NAME, 0o600)


def no_database(directory: Path) -> None:
    (directory / FILE_NAME).write_bytes(b"no database at all" * 100)


def damaged(directory: Path) -> None:
    data = bytearray((directory / FILE_NAME).read_bytes())
    data[100:2000] = os.urandom(1900)
    (directory / FILE_NAME).write_bytes(data)


def changed(directory: Path, statement: str) -> None:
    with sqlite3.connect(directory / FILE_NAME) as database:
        database.execute(statement)
    database.close()


def another_version(directory: Path) -> None:
    changed(directory, "PRAGMA user_version = 2")


def another_program(directory: Path) -> None:
    changed(directory, "PRAGMA application_id = 7")


def without_table(directory: Path) -> None:
    changed(directory, "DROP TABLE questions")


def emptied(directory: Path) -> None:
    (directory / FILE_NAME).write_bytes(b"")


def another_shape(directory: Path) -> None:
    changed(directory, "UPDATE questions SET question = '[]'")


def no_verdict(directory: Path) -> None:
    changed(directory, "UPDATE questions SET verdict = '{\"allowed\": 1}', status = 'allowed'")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (linked_directory, "is a link"),
        (linked_file, "is a link"),
        (fifo, "is a link, or no file"),
        (second_name, "another name"),
        (open_directory, "other users have access"),
        (open_file, "other users have access"),
        (no_database, "is damaged"),
        (damaged, "is damaged"),
        (another_version, "was not made by this version"),
        (another_program, "was not made by this version"),
        (without_table, "is damaged: no such table"),
        (emptied, "is damaged: no such table"),
        (another_shape, "is damaged"),
        (no_verdict, "is damaged"),
    ],
)
def test_a_file_that_others_may_have_written_or_that_is_damaged_approves_nothing(store, harm, words):
    """H8 T3, P23: fails closed, and says what to do."""
    asked = put(store)
    harm(store.directory)
    with pytest.raises(ConfigError, match=words) as caught:
        store.entries()
    assert caught.value.hint
    assert str(store.directory) in str(caught.value)
    with pytest.raises(ConfigError):
        store.answer(asked.id, YES, ME)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", FILE_NAME])
def test_another_users_file_or_directory_is_refused(store, name):
    """H8: whoever made it could approve."""
    os.chown(store.directory / name, 65534, 65534)
    for use in (store.entries, store.create):
        with pytest.raises(ConfigError, match=r"belongs to another user \(uid 65534\)"):
            use()


def test_a_directory_that_was_a_link_before_is_not_followed(tmp_path):
    """H8: a link that waits in a shared directory."""
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / "approvals").symlink_to("theirs")
    with pytest.raises(ConfigError, match="is a link"):
        Store(tmp_path / "approvals").create()


def test_an_unwritable_place_is_a_clear_error(tmp_path):
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match="can't be kept") as caught:
        Store(tmp_path / "state" / "approvals").create()
    assert "GLOVEPORT_STATE" in caught.value.hint


def test_who_holds_the_file_too_long_stops_nobody_for_ever(store, monkeypatch):
    monkeypatch.setattr("gloveport.approvals.database._BUSY_SECONDS", 0.05)
    held = sqlite3.connect(store.directory / FILE_NAME, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(ConfigError, match="database is locked"):
            store.entries()
    finally:
        held.close()
    assert store.entries() == ()


def test_many_processes_make_the_same_file_at_once(gloveport, tmp_path):
    code = (
        "import sys; from pathlib import Path; from gloveport.approvals.store import Store;"
        "store = Store(Path(sys.argv[1])); sys.stdin.read(); store.create(); print(store.entries())"
    )
    (script := tmp_path / "makes.py").write_text(code)
    options = {"stdout": subprocess.PIPE, "text": True}
    ready, go = os.pipe()
    others = [
        gloveport.start_script(script, tmp_path / "state" / "approvals", stdin=ready, **options) for _ in range(3)
    ]
    os.close(ready)
    os.close(go)
    assert [other.communicate()[0] for other in others] == ["()\n"] * 3


def test_a_file_that_another_process_makes_between_two_looks_at_it_is_ours(tmp_path, monkeypatch):
    """Two servers start at the same moment."""
    directory, looks, look = tmp_path / "approvals", [], database._number

    def look_while_another_makes_it(connection, name):
        found = look(connection, name)
        if name == "user_version" and not looks:
            looks.append(name)
            opened = sqlite3.connect(directory / FILE_NAME, timeout=0, isolation_level=None)
            with contextlib.closing(opened) as other, contextlib.suppress(sqlite3.OperationalError):  # it has to wait
                other.executescript(f"BEGIN IMMEDIATE; {database._SCHEMA}; COMMIT")
        return found

    monkeypatch.setattr(database, "_number", look_while_another_makes_it)
    store = Store(directory)
    store.create()
    assert (looks, store.entries()) == (["user_version"], ())
