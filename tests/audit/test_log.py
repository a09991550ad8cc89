"""The writer: one chain, whoever writes, whatever breaks."""

import contextlib
import fcntl
import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from gloveport.audit import log_files
from gloveport.audit.log import AuditLog
from gloveport.audit.read import records
from gloveport.audit.verify import verify
from gloveport.errors import AuditError
from gloveport.secrets.scrub import Needles, scrub_text, scrub_value

BIG = 1 << 20


def whole(directory: Path) -> list[int]:
    """Return the numbers of a log that verifies."""
    assert verify(directory).problems == ()
    return [record.seq for record in records(directory)]


def kinds(directory: Path) -> list[str]:
    return [record.kind for record in records(directory)]


def first_file(directory: Path) -> Path:
    return directory / "audit-000001.jsonl"


def test_a1_the_chain_goes_on_across_restarts_and_rotation(directory: Path):
    """A1: one chain, whatever the file; no file is larger than was asked for."""
    hashes = []
    for _restart in range(5):
        with AuditLog.open(directory, max_file_bytes=1000) as log:
            hashes += [log.append("a.b", {"n": number}).hash for number in range(4)]
    assert whole(directory) == list(range(1, 21))
    found = list(records(directory))
    assert [record.hash for record in found] == hashes
    assert [record.prev for record in found] == ["0" * 64, *hashes[:-1]]
    sizes = [path.stat().st_size for path in directory.glob("audit-*")]
    assert len(sizes) > 4
    assert max(sizes) <= 1000


def test_a_record_larger_than_a_file_may_be_gets_a_file_of_its_own(directory: Path):
    with AuditLog.open(directory, max_file_bytes=4096) as log:
        for _each in range(3):
            log.append("a", {"text": "x" * 10_000})
    assert whole(directory) == [1, 2, 3]
    assert len(list(directory.glob("audit-*"))) == 3


def test_t6_a_record_is_in_the_file_when_append_returns(directory: Path):
    """T6: written down before it happens."""
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        record = log.append("run.admitted", {"caller": "local"})
        assert first_file(directory).read_text() == record.line + "\n"
        assert json.loads((directory / "head").read_text()) == {
            "seq": 1,
            "hash": record.hash,
            "file": 1,
            "size": len(record.line) + 1,
        }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", json.loads(record.line)["time"])


def test_two_open_logs_see_each_other_before_each_append(directory: Path):
    with AuditLog.open(directory, max_file_bytes=900) as one, AuditLog.open(directory, max_file_bytes=700) as other:
        seqs = [log.append("a", {}).seq for log in (one, other, other, one, one, one, other, other, other, one)]
    assert seqs == list(range(1, 11))
    assert whole(directory) == seqs


WRITER = """
import sys
from pathlib import Path
from gloveport.audit.log import AuditLog
with AuditLog.open(Path(sys.argv[1]), max_file_bytes=5000) as log:
    for number in range(int(sys.argv[2])):
        log.append("a", {"number": number})
        print(number, flush=True)
"""


@pytest.fixture
def start_writer(gloveport, directory: Path, tmp_path: Path):
    """``start_writer(count, …)``: a process that writes so many records, with these options of ``Popen``."""
    (script := tmp_path / "writer.py").write_text(WRITER)
    return functools.partial(gloveport.start_script, script, directory)


def test_a1_processes_that_write_at_the_same_time_write_one_chain(directory: Path, start_writer):
    """A1: each client starts its own server; they share the log, from its founding on."""
    processes = [start_writer("150", stdout=subprocess.DEVNULL) for _each in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert whole(directory) == list(range(1, 601))


def test_threads_that_share_a_log_write_one_chain(directory: Path):
    with AuditLog.open(directory, max_file_bytes=5000) as log:
        threads = [threading.Thread(target=lambda: [log.append("a", {}) for _each in range(50)]) for _each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert whole(directory) == list(range(1, 201))


def test_a1_a_killed_writer_leaves_a_log_that_goes_on(directory: Path, start_writer):
    """A1: SIGKILL at whatever moment."""
    for round_number in range(5):
        with start_writer("1000000", stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _line in range(1 + round_number * 7):
                process.stdout.readline()
            process.kill()
            process.stdout.read()
        with AuditLog.open(directory, max_file_bytes=5000) as log:
            last = log.append("a", {}).seq
        assert whole(directory) == list(range(1, last + 1))


@pytest.mark.parametrize("kept", [1, 20, 150, -1])
def test_a1_a_torn_last_line_is_cut_off_and_recorded(directory: Path, kept: int):
    """A1: a crash in the middle of a write neither bricks the log nor vanishes from it."""
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        torn = log.append("a", {}).line.replace('"seq":2', '"seq":3').encode()[:kept]
    with first_file(directory).open("ab") as file:
        file.write(torn)
    assert verify(directory).problems == ()
    assert verify(directory).unfinished_bytes == len(torn)
    AuditLog.open(directory, max_file_bytes=BIG).close()
    assert whole(directory) == [1, 2, 3]
    recovered = list(records(directory))[-1]
    assert recovered.kind == "log.recovered"
    assert recovered.fields == {
        "file": "audit-000001.jsonl",
        "cut_bytes": len(torn),
        "cut_sha256": sha256(torn).hexdigest(),
    }


def test_a_line_torn_by_another_process_is_cut_off_by_a_running_one(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        with first_file(directory).open("ab") as file:
            file.write(b'{"seq":2,')
        assert log.append("b", {}).seq == 3
    assert kinds(directory) == ["a", "log.recovered", "b"]
    assert whole(directory) == [1, 2, 3]


@pytest.mark.parametrize("max_file_bytes", [300, BIG])
def test_a1_a_crash_between_line_and_head_loses_nothing(directory: Path, max_file_bytes: int):
    """A1: the line is there and links, the head is one behind."""
    with AuditLog.open(directory, max_file_bytes=max_file_bytes) as log:
        log.append("a", {})
        log.append("b", {})
        before = (directory / "head").read_bytes()
        if max_file_bytes < 1000:  # as rotation leaves it: the new file is named before it is written to
            size = first_file(directory).stat().st_size
            before = before.replace(f'"size":{size}'.encode(), b'"size":0')
            before = log_files.Head(seq=2, hash=json.loads(before)["hash"], file=3, size=0).encode()
        log.append("c", {})
    (directory / "head").write_bytes(before)
    assert verify(directory).problems == ()
    with AuditLog.open(directory, max_file_bytes=max_file_bytes) as log:
        log.append("d", {})
    assert kinds(directory) == ["a", "b", "c", "d"]
    assert whole(directory) == [1, 2, 3, 4]


def test_a_crash_between_a_new_file_and_the_head_loses_nothing(directory: Path):
    with AuditLog.open(directory, max_file_bytes=300) as log:
        log.append("a", {})
        (directory / "audit-000002.jsonl").touch(mode=0o600)
        assert verify(directory).problems == ()
        log.append("b", {})
    assert (directory / "audit-000002.jsonl").stat().st_size
    assert whole(directory) == [1, 2]


def test_a_crash_in_the_founding_of_a_log_loses_nothing(directory: Path):
    directory.mkdir(mode=0o700)
    (directory / "head").touch(mode=0o600)
    (directory / "audit-000001.jsonl").touch(mode=0o600)
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
    assert whole(directory) == [1]


def drop_last_line(directory: Path) -> None:
    lines = first_file(directory).read_bytes().splitlines(keepends=True)
    first_file(directory).write_bytes(b"".join(lines[:-1]))


def add_a_line(directory: Path) -> None:
    with first_file(directory).open("ab") as file:
        file.write(first_file(directory).read_bytes().splitlines(keepends=True)[-1])


def add_much(directory: Path) -> None:
    with first_file(directory).open("ab") as file:
        file.write(b"x" * 100_000)


def remove_head(directory: Path) -> None:
    (directory / "head").unlink()


def empty_head(directory: Path) -> None:
    (directory / "head").write_bytes(b"")


def damage_head(directory: Path) -> None:
    text = (directory / "head").read_text()
    (directory / "head").write_text(text.replace('"seq":2', '"seq":1'))


def fill_head(directory: Path) -> None:
    (directory / "head").write_bytes(b"[" * 300)


def remove_file(directory: Path) -> None:
    first_file(directory).unlink()


WRONG_ENDS = [
    drop_last_line,
    add_a_line,
    add_much,
    remove_head,
    empty_head,
    damage_head,
    fill_head,
    remove_file,
]


@pytest.mark.parametrize("damage", WRONG_ENDS)
def test_a1_nothing_is_appended_to_a_log_with_a_wrong_end(directory: Path, damage):
    """A1, T3: neither by a server that starts nor by one that runs; and verification says so too."""
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {"n": 1})
        log.append("a", {"n": 2})
        damage(directory)
        with pytest.raises(AuditError, match="hint: "):
            log.append("a", {"n": 4})
    with pytest.raises(AuditError, match="hint: "):
        AuditLog.open(directory, max_file_bytes=BIG)
    if damage is not remove_file:
        assert verify(directory).problems


def test_a_server_that_starts_refuses_a_last_line_that_was_altered(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {"n": 2})
    text = first_file(directory).read_text()
    first_file(directory).write_text(text.replace('"n":2', '"n":3'))
    with pytest.raises(AuditError, match="gloveport audit verify"):
        AuditLog.open(directory, max_file_bytes=BIG)


def test_a_file_with_content_after_the_last_is_refused_before_it_is_written_to(directory: Path):
    with AuditLog.open(directory, max_file_bytes=300) as log:
        log.append("a", {})
        planted = directory / "audit-000002.jsonl"
        planted.write_bytes(b"planted\n")
        planted.chmod(0o600)
        for _try in range(2):
            with pytest.raises(AuditError, match="content before its time"):
                log.append("b", {})
        assert [str(problem).split(":")[0] for problem in verify(directory).problems] == ["audit-000002.jsonl"]
        planted.write_bytes(b"")
        log.append("b", {})
    assert whole(directory) == [1, 2]


@pytest.mark.parametrize("part", ["directory", "head", "file"])
@pytest.mark.parametrize("fate", ["deleted", "replaced by a copy", "replaced by a link"])
def test_t3_what_was_deleted_or_replaced_under_a_running_server_is_no_place_to_write(
    directory: Path, tmp_path: Path, part: str, fate: str
):
    """T3, A1: a record that nobody can find is no record."""
    target = {"directory": directory, "head": directory / "head", "file": first_file(directory)}[part]
    away = tmp_path / "away"
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        target.rename(away)
        if fate == "replaced by a link":
            target.symlink_to(away)
        elif fate == "replaced by a copy":
            subprocess.run(["cp", "-a", away, target], check=True)
        with pytest.raises(AuditError, match="hint: "):
            log.append("b", {})
        if fate != "deleted":
            subprocess.run(["rm", "-r", target], check=True)
        away.rename(target)
        log.append("c", {})
    assert kinds(directory) == ["a", "c"]
    assert whole(directory) == [1, 2]


@pytest.mark.parametrize("part", ["directory", "head"])
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_t3_what_others_may_write_since_the_last_record_is_no_place_to_write(directory: Path, part: str, mode: int):
    """T3, A1: it was private when the server started, and at the record before."""
    target = directory if part == "directory" else directory / "head"
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        before = target.stat().st_mode & 0o777
        target.chmod(mode)
        for _try in range(2):
            with pytest.raises(AuditError, match="other users can write"):
                log.append("b", {})
        target.chmod(before)
        log.append("c", {})
    assert kinds(directory) == ["a", "c"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("part", ["directory", "head"])
def test_t3_what_was_given_to_another_user_is_no_place_to_write(directory: Path, part: str):
    """T3, A1."""
    target = directory if part == "directory" else directory / "head"
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        os.chown(target, 12345, 12345)
        with pytest.raises(AuditError, match="belongs to another user"):
            log.append("b", {})


def test_what_only_the_owner_may_do_otherwise_is_no_reason_to_stop(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        directory.chmod(0o750)
        (directory / "head").chmod(0o400)
        (directory / "of the owner").mkdir()
        log.append("b", {})
    assert whole(directory) == [1, 2]


def test_a1_a_log_of_an_earlier_release_verifies_and_goes_on(directory: Path):
    """A1: its bytes as they were written then."""
    first = "cb5a82a55cf2ce79c0b367d9b63481f633f025ccb9594a618aa88e822435917b"
    last = "989d1f2fa1ed429d88f2d95f5ac0668f0f0a7fdff6a99eab514ebc54c4e229a8"
    content = (
        '{"seq":1,"time":"2026-11-22T05:32:22.176621Z","kind":"run.admitted",'
        f'"caller":"lo\\u00e9cal \\ud800","n":[1.5,null,true],"prev":"{"0" * 64}","hash":"{first}"}}\n'
        f'{{"seq":2,"time":"2026-11-22T05:32:22.176820Z","kind":"run.ended","prev":"{first}","hash":"{last}"}}\n'
    )
    head = f'{{"seq":2,"hash":"{last}","file":1,"size":481}}'.ljust(255) + "\n"
    directory.mkdir(mode=0o700)
    first_file(directory).write_text(content)
    (directory / "head").write_text(head)
    assert log_files.Head(seq=2, hash=last, file=1, size=481).encode() == head.encode()
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        assert (directory / "head").read_text() == head
        log.append("a", {})
    assert whole(directory) == [1, 2, 3]
    assert first_file(directory).read_text().startswith(content)


def test_files_and_directory_are_the_owners_alone(directory: Path):
    before = os.umask(0)
    try:
        with AuditLog.open(directory, max_file_bytes=300) as log:
            log.append("a", {})
            log.append("b", {})
    finally:
        os.umask(before)
    assert directory.stat().st_mode & 0o7777 == 0o700
    assert {path.stat().st_mode & 0o7777 for path in directory.iterdir()} == {0o600}
    assert len(list(directory.iterdir())) == 3


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused(directory: Path, mode: int):
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(AuditError, match="other users can write"):
        AuditLog.open(directory, max_file_bytes=BIG)
    assert list(directory.iterdir()) == []


def test_a_directory_of_another_user_is_refused(directory: Path):
    if os.geteuid() == 0:
        directory.mkdir(mode=0o700)
        os.chown(directory, 12345, 12345)
    else:
        directory = Path("/")
    with pytest.raises(AuditError, match="belongs to another user"):
        AuditLog.open(directory, max_file_bytes=BIG)


@pytest.mark.parametrize("name", ["head", "audit-000001.jsonl"])
def test_a_file_that_others_can_write_is_refused(directory: Path, name: str):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        (directory / name).chmod(0o620)
        with pytest.raises(AuditError, match="other users can write"):
            AuditLog.open(directory, max_file_bytes=BIG)


@pytest.mark.parametrize("name", ["head", "audit-000001.jsonl"])
def test_what_is_no_regular_file_is_refused(directory: Path, name: str):
    directory.mkdir(mode=0o700)
    os.mkfifo(directory / name, 0o600)
    with pytest.raises(AuditError, match="hint: "):
        AuditLog.open(directory, max_file_bytes=BIG)


def test_a_link_to_a_directory_is_refused(directory: Path, tmp_path: Path):
    AuditLog.open(directory, max_file_bytes=BIG).close()
    (tmp_path / "link").symlink_to(directory)
    with pytest.raises(AuditError, match="can't be opened"):
        AuditLog.open(tmp_path / "link", max_file_bytes=BIG)


def test_a_directory_that_can_not_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="can't be written") as refused:
        AuditLog.open(tmp_path / "file" / "audit", max_file_bytes=BIG)
    assert "GLOVEPORT_STATE" in refused.value.hint


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Make the kernel refuse every byte of a file after this many, also for root; the write before may be partial."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("max_file_bytes", [600, BIG])
def test_a1_a_write_that_fails_after_any_number_of_bytes_is_taken_back(directory: Path, max_file_bytes: int):
    """A1: at every byte; also while the log is founded, in the head, and in a new file."""
    failures = 0
    for size in range(0, 1200, 7):
        before = {path: path.read_bytes() for path in directory.glob("*")}
        refusal = ""
        try:
            with file_size_limit(size), AuditLog.open(directory, max_file_bytes=max_file_bytes) as log:
                log.append("a", {"size": size})
        except AuditError as error:
            refusal = str(error)
        if refusal:
            failures += 1
            assert "can't be written" in refusal
            assert {path: data for path in directory.glob("*") if (data := path.read_bytes())} == {
                path: data for path, data in before.items() if data
            }
    assert failures > 50
    with AuditLog.open(directory, max_file_bytes=max_file_bytes) as log:
        last = log.append("b", {}).seq
    assert whole(directory) == list(range(1, last + 1))
    assert "log.recovered" not in kinds(directory)


def test_the_operator_is_told_once_that_nothing_can_be_recorded(directory: Path, caplog: pytest.LogCaptureFixture):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {})
        with file_size_limit(first_file(directory).stat().st_size + 10):
            for _ in range(3):
                with pytest.raises(AuditError, match="can't be written"):
                    log.append("b", {})
        log.append("c", {})
    (record,) = caplog.records
    assert f"nothing runs: the audit log in {directory} can't be written: File too large\nhint: " in record.getMessage()


def test_a_torn_line_that_can_not_be_recorded_is_kept_until_it_can(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        log.append("a", {"text": "x" * 400})
        torn = b'{"seq":2,"time":"20'
        with first_file(directory).open("ab") as file:
            file.write(torn)
        found = first_file(directory).read_bytes()
        with file_size_limit(len(found) + 10), pytest.raises(AuditError):
            log.append("b", {})
        assert first_file(directory).read_bytes() == found
        log.append("c", {})
    assert kinds(directory) == ["a", "log.recovered", "c"]
    assert whole(directory) == [1, 2, 3]


FULL_DISK = """
import subprocess, sys
from pathlib import Path
from gloveport.audit.log import AuditLog
from gloveport.audit.verify import verify
from gloveport.errors import AuditError
from gloveport.secrets.scrub import Needles, scrub_text
from gloveport.secrets.scrub import scrub_value
place = Path(sys.argv[1])
place.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
filler = place / "filler"
filler.write_bytes(b"x" * 16384)
with AuditLog.open(place / "audit", max_file_bytes=int(sys.argv[2])) as log:
    written, refused = 0, 0
    while refused < 20:
        try:
            log.append("a", {"text": "x" * ((written * 37 + refused * 91) % 700)})
            written += 1
        except AuditError as error:
            refused += 1
            assert "No space left on device" in str(error), error
    assert verify(place / "audit").problems == (), verify(place / "audit")
    assert written > 20
    filler.unlink()
    assert log.append("b", {}).seq == written + 1
outcome = verify(place / "audit")
assert outcome.problems == ()
assert outcome.lines == written + 1
print("full and free again")
"""


@pytest.mark.parametrize("max_file_bytes", [4096, BIG])
def test_a1_a_full_disk_stops_the_log_and_room_lets_it_go_on(tmp_path: Path, max_file_bytes: int):
    """A1: a real file system without room.

    Where this user may not mount one, the kernel's file size limit (above) has shown the same at every byte.
    """
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user can't make a mount namespace; the file size limit tests run instead")
    command = [*namespace, sys.executable, "-c", FULL_DISK, tmp_path / "disk", str(max_file_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "full and free again\n", done.stderr
    assert done.stderr.count("nothing runs: ") == 1


POWER_CUT = """
import subprocess, sys
from pathlib import Path
from gloveport.audit.log import AuditLog
image, disk = Path(sys.argv[1]), Path(sys.argv[2])
with image.open("wb") as file:
    file.truncate(16 << 20)
disk.mkdir()
subprocess.run(["mkfs.ext4", "-q", image], check=True)
subprocess.run(["mount", "-o", "loop", image, disk], check=True)
subprocess.run(["sync", "-f", disk], check=True)
with AuditLog.open(disk / "new" / "audit", max_file_bytes=1 << 20) as log:
    log.append("a", {})
    at_the_power_cut = image.with_name("image at the power cut")
    at_the_power_cut.write_bytes(image.read_bytes())
subprocess.run(["umount", disk], check=True)
subprocess.run(["mount", "-o", "loop", at_the_power_cut, disk], check=True)
with AuditLog.open(disk / "new" / "audit", max_file_bytes=1 << 20) as log:
    print(log.append("b", {}).seq)
subprocess.run(["umount", disk], check=True)
"""


def test_a1_a_power_cut_takes_no_whole_log_so_that_another_begins(tmp_path: Path):
    """A1: a real file system, and what its disk holds at one moment."""
    if os.geteuid():
        pytest.skip("only root may mount a file")
    image = tmp_path / "image"
    command = ["unshare", "--mount", sys.executable, "-c", POWER_CUT, image, tmp_path / "disk"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "subprocess.run" in done.stderr:
        pytest.skip(f"no file can be mounted here: {done.stderr.splitlines()[-1]}")
    assert done.stdout == "2\n", done.stderr


def test_a_lock_that_is_never_released_is_an_error_and_not_a_hang(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_files, "LOCK_SECONDS", 0.05)
    with AuditLog.open(directory, max_file_bytes=BIG) as log, (directory / "head").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match="another process held the lock"):
            log.append("a", {})
        fcntl.flock(other, fcntl.LOCK_UN)
        log.append("a", {})
    assert whole(directory) == [1]


def test_a_refused_record_leaves_no_trace(directory: Path):
    with AuditLog.open(directory, max_file_bytes=BIG) as log:
        with pytest.raises(AuditError):
            log.append("a", {"value": float("nan")})
        assert log.append("a", {}).seq == 1


def test_a_closed_log_refuses(directory: Path):
    log = AuditLog.open(directory, max_file_bytes=BIG)
    log.close()
    log.close()
    with pytest.raises(AuditError, match="closed"):
        log.append("a", {})


def open_descriptors() -> set[int]:
    # The list is made by a descriptor too, which is gone when it is read.
    return {int(entry.name) for entry in list(Path("/proc/self/fd").iterdir()) if entry.exists()}


def test_no_descriptor_is_left_open_or_inherited(directory: Path):
    before = open_descriptors()
    with AuditLog.open(directory, max_file_bytes=300) as log:
        for _each in range(5):
            log.append("a", {})
        added = open_descriptors() - before
        assert len(added) == 3
        assert not any(map(os.get_inheritable, added))
    (directory / "head").write_bytes(b"damaged")
    for _try in range(3):
        with pytest.raises(AuditError):
            AuditLog.open(directory, max_file_bytes=300)
    assert open_descriptors() == before


def test_an_interrupt_in_the_middle_of_writing_leaves_a_whole_log(directory: Path):
    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with AuditLog.open(directory, max_file_bytes=1500) as log:
            for microseconds in range(20, 320):
                try:
                    signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                    while True:
                        log.append("a", {})
                except KeyboardInterrupt:
                    with (directory / "head").open("rb") as other:  # and nobody else has to wait for this log's next
                        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            last = log.append("b", {}).seq
    finally:
        signal.signal(signal.SIGALRM, before)
    assert whole(directory) == list(range(1, last + 1))


def test_every_record_goes_through_the_one_that_takes_secrets_out(tmp_path):
    """P19: whoever writes it, whatever it stands in, be it a name, a tuple, or deeper than a record may be."""
    deep: list = ["hunter22"]
    for _ in range(2000):
        deep = [deep]
    needles = Needles.of({"alpha": "hunter22"})

    def clean(fields):
        return scrub_value(dict(fields), lambda text: scrub_text(needles, text))

    fields = {"plain": "it is hunter22", "name": {"hunter22": 1}, "several": ("hunter22", ["22retnuh"]), "count": 5}
    with AuditLog.open(tmp_path / "audit", max_file_bytes=BIG, clean=clean) as log:
        record = log.append("fetch.ended", fields)
        assert "[secret alpha]" in log.append("fetch.ended", {"deep": deep, "told": "hunter22"}).line
    assert record.fields["name"] == {"[secret alpha]": 1}
    assert record.fields["several"] == ["[secret alpha]", ["[secret alpha]"]]
    written = (tmp_path / "audit" / "audit-000001.jsonl").read_text()
    assert "hunter22" not in written
    assert "22retnuh" not in written
