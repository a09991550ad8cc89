"""A log that grows too large loses its oldest files, and what is left verifies to its beginning."""

import shutil
import threading
from pathlib import Path

import pytest

from gloveport.audit.log import AuditLog
from gloveport.audit.read import Follower, records, tail
from gloveport.audit.record import Record, draft, parse, seal
from gloveport.audit.retention import RetentionBounds
from gloveport.audit.verify import verify

BOUNDS = RetentionBounds(log_bytes=8000, record_bytes=4096)


def fill(directory: Path, count: int, bounds: RetentionBounds = BOUNDS) -> None:
    with AuditLog.open(directory, max_file_bytes=2000, bounds=bounds) as log:
        for number in range(count):
            log.append("a.b", {"number": number, "text": "x" * 200})


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*"))


def kinds(directory: Path) -> list[str]:
    return [problem.kind for problem in verify(directory).problems]


def test_the_oldest_files_go_and_the_chain_says_up_to_where(directory: Path):
    """A1, P13, the knob audit.max_bytes."""
    fill(directory, 200)
    assert sum(path.stat().st_size for path in files(directory)) <= 8000
    outcome = verify(directory)
    assert outcome.problems == ()
    (first, *_, last) = [entry for entry in records(directory) if isinstance(entry, Record)]
    assert outcome.archived == (first.seq - 1, first.prev)
    told = [entry for entry in records(directory) if isinstance(entry, Record) and entry.kind == "log.archived"][-1]
    assert (told.fields["seq_removed"], told.fields["hash_removed"]) == outcome.archived
    assert last.seq == outcome.head.seq > 200
    assert [entry.seq for entry in Follower(directory, last=3).poll()] == [last.seq - 2, last.seq - 1, last.seq]
    fill(directory, 1)
    assert verify(directory).problems == ()


def test_a_log_within_its_size_keeps_everything(directory: Path):
    fill(directory, 200, RetentionBounds(log_bytes=1 << 20))
    outcome = verify(directory)
    assert (outcome.problems, outcome.archived, outcome.lines) == ((), None, 200)


def test_a_line_more_than_was_said_to_be_removed_is_missed(directory: Path):
    """A1: nobody can hide a removal behind the one that was meant."""
    fill(directory, 200)
    first = files(directory)[0]
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[1:]))
    assert kinds(directory) == ["removed"]
    first.unlink()
    assert kinds(directory) == ["removed"]


def test_the_first_line_that_is_left_is_held_by_what_the_chain_says(directory: Path):
    """A1: rewritten with its own hash, it names another than the one that was removed last."""
    fill(directory, 200)
    first = files(directory)[0]
    lines = first.read_bytes().splitlines(keepends=True)
    before = parse(lines[0].rstrip(b"\n"))
    assert before is not None
    forged = seal(draft("a.b", {"number": 5}), seq=before.seq, prev="1" * 64).line.encode()
    first.write_bytes(forged + b"\n" + b"".join(lines[1:]))
    assert kinds(directory) == ["altered"]


def test_without_a_record_of_it_a_missing_beginning_is_a_problem(directory: Path):
    fill(directory, 200, RetentionBounds(log_bytes=1 << 20))
    files(directory)[0].unlink()
    assert kinds(directory) == ["removed"]


def test_a_kill_between_the_record_and_the_removal_loses_nothing(directory: Path, tmp_path: Path):
    """What was to be removed is there still, all of it or a part: both verify, and the next time it goes."""
    fill(directory, 28)
    kept = tmp_path / "kept"
    shutil.copytree(directory, kept)
    gone = len(files(directory))
    while files(directory)[0].name == files(kept)[0].name:
        fill(directory, 1)
    for path in files(kept)[:gone]:
        if not (directory / path.name).exists():
            shutil.copy2(path, directory / path.name)
    assert verify(directory).problems == ()
    fill(directory, 100)
    assert verify(directory).problems == ()
    assert sum(path.stat().st_size for path in files(directory)) <= 8000


def test_what_does_not_end_as_a_log_does_stays_as_evidence(directory: Path):
    fill(directory, 20, RetentionBounds(log_bytes=1 << 20))
    first = files(directory)[0]
    first.write_bytes(first.read_bytes()[:-20] + b"\n")
    fill(directory, 100)
    assert first.exists()
    assert "altered" in kinds(directory)


@pytest.mark.parametrize("most", [4096, 16384, 65536])
def test_a_record_has_so_many_bytes_at_most(directory: Path, most: int):
    """The knob audit.max_record_bytes: its largest fields become size and digest."""
    with AuditLog.open(directory, max_file_bytes=1 << 20, bounds=RetentionBounds(record_bytes=most)) as log:
        record = log.append("a.b", {"small": "kept", "large": "x" * 100_000})
        assert len(record.line) < most
        assert record.fields["small"] == "kept"
        assert len(log.append("a.b", {"text": "y" * (most - 1000)}).line) > most - 1000


def test_who_reads_while_the_oldest_go_finds_no_fault(directory: Path):
    fill(directory, 50)
    stop = threading.Event()

    def write() -> None:
        with AuditLog.open(directory, max_file_bytes=2000, bounds=BOUNDS) as log:
            while not stop.is_set():
                log.append("a.b", {"text": "x" * 200})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            assert verify(directory).problems == ()
            assert all(isinstance(entry, Record) for entry in records(directory))
        follower = Follower(directory, last=5)
        for _ in range(500):
            assert all(isinstance(entry, Record) for entry in [*tail(directory, 30), *follower.poll()])
    finally:
        stop.set()
        writer.join()
