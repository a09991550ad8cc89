"""Reading: what was written, what matches, and the end as it grows."""

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.audit.log import AuditLog
from gloveport.audit.read import Damaged, Filter, Follower, query, records, tail
from gloveport.audit.verify import verify
from gloveport.errors import AuditError

BIG = 1 << 20


def test_a1_records_are_read_as_they_were_returned(directory: Path):
    with AuditLog.open(directory, max_file_bytes=600) as log:
        written = [log.append("a.b", {"n": number, "text": "é\ud800"}) for number in range(7)]
        assert list(records(directory)) == written


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), [1, 2, 3, 4]),
        (Filter(kind="run"), [1, 2, 4]),
        (Filter(kind="run."), [1, 2, 4]),
        (Filter(kind="run.ended"), [2, 4]),
        (Filter(kind="ru"), []),
        (Filter(run="r1"), [1, 2]),
        (Filter(caller="bob"), [3, 4]),
        (Filter(outcome="ok"), [2]),
        (Filter(outcome="timeout"), [4]),
        (Filter(kind="run", caller="bob", outcome="timeout"), [4]),
        (Filter(kind="run", caller="bob", outcome="ok"), []),
    ],
)
def test_a1_a_query_finds_what_matches_every_condition(directory: Path, wanted: Filter, found: list[int]):
    with AuditLog.open(directory, max_file_bytes=600) as log:
        log.append("run.admitted", {"run": "r1", "caller": "ann"})
        log.append("run.ended", {"run": "r1", "caller": "ann", "outcome": "ok"})
        log.append("runner.started", {"caller": "bob", "run": ["r1"]})
        log.append("run.ended", {"run": "r2", "caller": "bob", "status": "timeout"})
    assert [record.seq for record in query(directory, wanted)] == found


def test_a_query_by_time_takes_the_beginning_and_leaves_the_end(directory: Path):
    with AuditLog.open(directory, max_file_bytes=600) as log:
        first, second, third = (log.append("a", {}) for _each in range(3))
    step = timedelta(microseconds=1)
    found = query(directory, Filter(since=first.time + step, until=third.time))
    assert list(found) == ([second] if second.time > first.time else [])
    assert next(query(directory, Filter(since=first.time))) == first


@given(st.integers(0, 30), st.integers(0, 40), st.integers(200, 3000))
def test_the_tail_is_the_end_of_all_whatever_the_files(count, wanted, size):
    with TemporaryDirectory() as place:
        with AuditLog.open(Path(place) / "audit", max_file_bytes=size) as log:
            for number in range(count):
                log.append("a", {"text": "x" * (number * 61 % 500)})
        everything = list(records(Path(place) / "audit"))
        assert tail(Path(place) / "audit", wanted) == everything[max(0, count - wanted) :]


def test_the_tail_of_a_large_file_is_found_across_blocks(directory: Path):
    with AuditLog.open(directory, max_file_bytes=100 * BIG) as log:
        for number in range(40):
            log.append("a", {"text": "x" * (number % 3 * 30_000)})
    assert tail(directory, 25) == list(records(directory))[-25:]


def test_a_follower_sees_every_record_once_while_others_write_and_rotate(directory: Path):
    """A1: reading while another writes; no lock is held meanwhile."""
    with AuditLog.open(directory, max_file_bytes=2000) as log:
        written = [log.append("a", {"n": number}) for number in range(10)]
        follower = Follower(directory, last=3)
        writer = threading.Thread(target=lambda: written.extend(log.append("b", {}) for _each in range(300)))
        writer.start()
        seen = follower.poll()
        assert seen[:3] == written[7:10]
        while writer.is_alive():
            seen += follower.poll()
        writer.join()
        seen += follower.poll()
        assert seen == written[7:]
        assert follower.poll() == []


def test_a_follower_of_an_empty_log_sees_its_first_record(directory: Path):
    directory.mkdir(mode=0o700)
    follower = Follower(directory, last=5)
    assert follower.poll() == []
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        record = log.append("a", {})
    assert follower.poll() == [record]


def test_a_follower_says_so_when_the_log_lost_its_end(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
    follower = Follower(directory, last=1)
    (directory / "audit-000001.jsonl").write_bytes(b"")
    with pytest.raises(AuditError, match="lost its end"):
        follower.poll()


def test_a_line_that_is_being_written_is_not_shown_yet(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        one, two = log.append("a", {}), log.append("b", {})
    path = directory / "audit-000001.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    assert list(records(directory)) == [one]
    assert tail(directory, 5) == [one]
    follower = Follower(directory, last=1)
    assert follower.poll() == [one]
    with path.open("ab") as file:
        file.write(b"\n")
    assert follower.poll() == [two]


@pytest.mark.parametrize(
    "wrong",
    [b"x", b"", b"a\rb", b"{}", b'{"seq":2}', b"\xff\xfe", b"[" * 70_000, b"x" * 70_000, b'"' + b"\\" * 200],
)
def test_a_damaged_line_is_reported_and_never_passed_over(directory: Path, wrong: bytes):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        one, two = log.append("a", {}), log.append("b", {"run": "r"})
    first, second = (record.line.encode() + b"\n" for record in (one, two))
    path = directory / "audit-000001.jsonl"
    path.write_bytes(first + wrong + b"\n" + second)
    damaged = Damaged(file=path.name, offset=len(first))
    assert list(records(directory)) == [one, damaged, two]
    assert tail(directory, 3) == [one, damaged, two]
    assert tail(directory, 2) == [damaged, two]
    assert list(query(directory, Filter(run="r"))) == [damaged, two]


def test_an_altered_record_is_never_shown_as_one(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("run.denied", {"caller": "mallory"})
    path = directory / "audit-000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"mallory", b"someone"))
    assert list(records(directory)) == [Damaged(file=path.name, offset=0)]


def test_the_tail_of_a_file_without_lines_takes_no_memory(directory: Path):
    """A file with a hole of 256 MiB at its end, read where less is to be had."""
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        record = log.append("a", {})
    os.truncate(directory / "audit-000001.jsonl", 256 << 20)
    code = (
        "import sys; from pathlib import Path; from gloveport.audit.read import tail; print(tail(Path(sys.argv[1]), 5))"
    )
    command = ["prlimit", f"--as={256 << 20}", sys.executable, "-c", code, directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{[record]}\n", done.stderr


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_an_error_for_each_reader(directory: Path, make):
    with AuditLog.open(directory, max_file_bytes=300) as log:
        log.append("a", {})
        log.append("b", {})
    path = directory / "audit-000002.jsonl"
    path.unlink()
    make(path)
    for read in (verify, lambda place: tail(place, 5), lambda place: list(records(place))):
        with pytest.raises(AuditError, match=r"audit-000002\.jsonl in the audit directory is no regular file"):
            read(directory)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_head_that_is_no_regular_file_is_missing(directory: Path, make):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
    (directory / "head").unlink()
    make(directory / "head")
    assert [problem.kind for problem in verify(directory).problems] == ["head"]
