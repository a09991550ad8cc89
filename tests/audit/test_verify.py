"""Verification: whatever was written verifies, and whatever was done to it is named where it was done."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.audit.log import AuditLog
from gloveport.audit.log_files import parse_head
from gloveport.audit.record import UnchainedRecord, parse, seal
from gloveport.audit.verify import Problem, verify
from gloveport.errors import AuditError


@dataclass(frozen=True)
class Written:
    """A log: its directory and its lines, each with file name and line number."""

    directory: Path
    lines: list[tuple[str, int, bytes]]

    def store(self, lines: list[bytes]) -> None:
        """Write other lines into the same files, as many into each as before, the rest into the last."""
        rest = list(lines)
        names = sorted({name for name, _number, _line in self.lines})
        for name in names:
            count = sum(1 for other, _number, _line in self.lines if other == name)
            mine, rest = (rest, []) if name == names[-1] else (rest[:count], rest[count:])
            (self.directory / name).write_bytes(b"".join(mine))

    def replace(self, index: int, lines: list[bytes]) -> None:
        """Write other lines for the one at this index, into its own file."""
        name = self.lines[index][0]
        kept = [[line] if at != index else lines for at, (_name, _number, line) in enumerate(self.lines)]
        mine = [line for at, (other, _number, _line) in enumerate(self.lines) if other == name for line in kept[at]]
        (self.directory / name).write_bytes(b"".join(mine))


def write(directory: Path, writers: list[int], *, sizes: tuple[int, int] = (800, 800)) -> Written:
    logs = [AuditLog.open(directory, max_file_bytes=size) for size in sizes]
    for number, writer in enumerate(writers):
        logs[writer].append("a.b", {"number": number, "text": "x" * (number * 37 % 150)})
    for log in logs:
        log.close()
    lines = [
        (path.name, number, line)
        for path in sorted(directory.glob("audit-*"))
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1)
    ]
    return Written(directory, lines)


def named(problem: Problem) -> tuple[str, str, int, int | None]:
    assert problem.place is not None
    return problem.kind, str(problem.place).split(":")[0], problem.place.line, problem.seq


WRITERS = st.lists(st.integers(0, 1), min_size=1, max_size=25)
SIZES = st.tuples(st.integers(200, 3000), st.integers(200, 3000))


@given(WRITERS, SIZES)
def test_a1_whatever_two_writers_wrote_verifies(writers, sizes):
    """A1: any interleaving, any rotation."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        outcome = verify(written.directory)
        assert outcome.problems == ()
        assert outcome.lines == len(writers)
        assert outcome.head is not None
        assert outcome.head.seq == len(writers)


@given(st.data(), WRITERS, SIZES)
def test_a1_any_byte_that_is_changed_is_named_by_file_line_and_seq(data, writers, sizes):
    """A1: found, at its place, and nothing else is accused."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        index = data.draw(st.integers(0, len(written.lines) - 1))
        name, number, line = written.lines[index]
        at = data.draw(st.integers(0, len(line) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
        changed = line[:at] + bytes([byte]) + line[at + 1 :]
        written.replace(index, [changed])
        problems = verify(written.directory).problems
        kind, file, where, seq = named(problems[0])
        assert (file, where, seq) == (name, number, index + 1)
        assert kind in {"altered", "truncated"}
        # A newline more or less makes two lines of one, or one of two.
        joined_or_split = at == len(line) - 1 or byte == ord("\n")
        assert len(problems) == 1 or (joined_or_split and len(problems) == 2)


@given(st.data(), WRITERS, SIZES)
def test_a1_a_removed_line_is_named(data, writers, sizes):
    """A1: the last one too."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        index = data.draw(st.integers(0, len(written.lines) - 1))
        name, number, _line = written.lines[index]
        written.replace(index, [])
        (problem,) = verify(written.directory).problems
        kind, file, where, seq = named(problem)
        assert (kind, seq, problem.lines) == ("removed", index + 1, 1)
        # Between two files nobody can tell where it stood: the end of one, or the beginning of the other.
        assert (file, where) == (name, number) or (number == 1 and written.lines[index - 1][:2] == (file, where - 1))


@given(st.data(), WRITERS.filter(lambda writers: len(writers) > 1), SIZES)
def test_a1_two_swapped_lines_are_named(data, writers, sizes):
    """A1: both, or one of two neighbours."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        one, other = sorted(data.draw(st.sets(st.integers(0, len(writers) - 1), min_size=2, max_size=2)))
        lines = [line for _name, _number, line in written.lines]
        lines[one], lines[other] = lines[other], lines[one]
        written.store(lines)
        problems = verify(written.directory).problems
        truth = {
            ("reordered", *written.lines[one][:2], other + 1),
            ("reordered", *written.lines[other][:2], one + 1),
        }
        found = {named(problem) for problem in problems}
        if other - one == 1:
            assert len(found) == 1
            assert found < truth
        elif other - one == 2:  # either both, or the one between them: three lines that fall
            middle = ("reordered", *written.lines[one + 1][:2], one + 2)
            assert len(found) == 2
            assert found < {*truth, middle}
        else:
            assert found == truth


@given(st.data(), WRITERS, SIZES)
def test_a1_a_copied_line_is_named(data, writers, sizes):
    """A1: the copy, or the original beside it, which is the same."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        index = data.draw(st.integers(0, len(written.lines) - 1))
        name, number, line = written.lines[index]
        written.replace(index, [line, line])
        (problem,) = verify(written.directory).problems
        kind, file, where, seq = named(problem)
        assert (kind, file, seq, problem.lines) == ("inserted", name, index + 1, 1)
        assert where in {number, number + 1}


@given(st.data(), WRITERS, SIZES)
def test_a1_a_tail_that_was_cut_is_named(data, writers, sizes):
    """A1: at any byte; what a hash chain alone can't see, the head does."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        kept = data.draw(st.integers(0, len(written.lines) - 1))
        name, number, line = written.lines[kept]
        part = data.draw(st.integers(0, len(line) - 1))
        for path in written.directory.glob("audit-*"):
            if path.name > name:
                path.unlink()
        mine = [line for other, at, line in written.lines if other == name and at < number]
        (written.directory / name).write_bytes(b"".join([*mine, line[:part]]))
        if not any(path.stat().st_size for path in written.directory.glob("audit-*")):
            assert verify(written.directory).problems[0].lines == len(writers)
            return
        problems = verify(written.directory).problems
        lost = [(problem.kind, problem.seq, problem.lines) for problem in problems]
        after = [("removed", kept + 2, len(writers) - kept - 1)] if kept + 1 < len(writers) else []
        if part:
            assert lost == [("truncated", kept + 1, 1), *after]
            assert named(problems[0])[1:3] == (name, number)
        else:
            assert lost == [("removed", kept + 1, len(writers) - kept)]


@given(st.data(), WRITERS, SIZES)
def test_a1_any_byte_of_the_head_that_is_changed_is_found(data, writers, sizes):
    """A1: the head is checked against the lines as they are against it."""
    with TemporaryDirectory() as place:
        written = write(Path(place) / "audit", writers, sizes=sizes)
        head = written.directory / "head"
        content = head.read_bytes()
        at = data.draw(st.integers(0, len(content) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
        head.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
        problems = verify(written.directory).problems
        assert {problem.kind for problem in problems} <= {"head", "removed"}
        assert len(problems) == 1


def test_a1_every_independent_break_is_named_and_nothing_else(directory: Path):
    """A1: no avalanche after the first, none hidden behind another."""
    written = write(directory, [0] * 60, sizes=(1 << 20, 1 << 20))
    lines = [line for _name, _number, line in written.lines]
    lines[4] = lines[4].replace(b"a.b", b"a.c")
    del lines[50:53]
    lines[40] = lines[40].replace(b"xx", b"x", 1)
    lines.insert(30, lines[2])
    lines.insert(20, b"what is this?\n")
    lines.insert(13, lines.pop(10))
    written.store(lines)
    problems = verify(directory).problems
    assert [(problem.kind, problem.seq, problem.lines) for problem in problems] == [
        ("altered", 5, 1),
        ("reordered", 11, 1),
        ("inserted", None, 1),
        ("inserted", 3, 1),
        ("altered", 41, 1),
        ("removed", 51, 3),
    ]


def forged(line: bytes, *, prev: str | None = None) -> bytes:
    """Change what a line says, and give it a hash of its own that holds."""
    record = parse(line.rstrip(b"\n"))
    assert record is not None
    lie = UnchainedRecord(kind="a.lie", fields={}, members="")
    return seal(lie, seq=record.seq, prev=prev or record.prev).line.encode() + b"\n"


@pytest.mark.parametrize("prev", [None, "f" * 64])
@pytest.mark.parametrize("index", range(6))
def test_a1_a_line_rewritten_with_a_hash_that_holds_is_named(directory: Path, index: int, prev: str | None):
    """A1: by the line after it, or by the head."""
    written = write(directory, [0] * 6)
    name, number, line = written.lines[index]
    written.replace(index, [forged(line, prev=prev)])
    (problem,) = verify(directory).problems
    if index == 5:
        assert problem.kind == "head"
        assert f"{name}:{number}" in problem.detail
    else:
        assert named(problem) == ("altered", name, number, index + 1)


def test_a1_a_forged_line_that_links_is_named_and_not_the_one_it_would_replace(directory: Path):
    written = write(directory, [0] * 6)
    name, number, line = written.lines[3]
    written.replace(3, [forged(line), line])
    (problem,) = verify(directory).problems
    assert named(problem) == ("inserted", name, number, 4)


def test_a_removed_file_is_one_problem(directory: Path):
    written = write(directory, [0] * 20)
    names = [name for name, _number, _line in written.lines]
    second = sorted(set(names))[1]
    (directory / second).unlink()
    (problem,) = verify(directory).problems
    assert (problem.kind, problem.seq, problem.lines) == ("removed", names.index(second) + 1, names.count(second))
    assert "between audit-000001.jsonl:" in str(problem)


def test_files_that_changed_places_are_one_problem_each_at_most(directory: Path):
    written = write(directory, [0] * 20)
    first, second = sorted({name for name, _number, _line in written.lines})[:2]
    (directory / first).rename(directory / "other")
    (directory / second).rename(directory / first)
    (directory / "other").rename(directory / second)
    (problem,) = verify(directory).problems
    assert problem.kind == "reordered"
    assert problem.lines > 1


def test_a_log_put_back_to_an_earlier_day_with_its_head_verifies_against_itself_only(directory: Path):
    """A1: the documented limit of a hash chain: the head must be known elsewhere."""
    write(directory, [0] * 3)
    earlier = {path: path.read_bytes() for path in directory.iterdir()}
    known = parse_head((directory / "head").read_bytes())
    write(directory, [0] * 3)
    later = parse_head((directory / "head").read_bytes())
    for path in directory.iterdir():
        path.write_bytes(earlier.get(path, b""))
    head = verify(directory).head
    assert head == known
    assert head != later


def test_a_missing_head_is_a_problem(directory: Path):
    write(directory, [0] * 3)
    (directory / "head").unlink()
    assert [problem.kind for problem in verify(directory).problems] == ["head"]


def test_an_older_head_is_one_problem(directory: Path):
    write(directory, [0] * 3)
    head = (directory / "head").read_bytes()
    write(directory, [0] * 9)
    (directory / "head").write_bytes(head)
    (problem,) = verify(directory).problems
    assert "ends the log at seq 3, the files go on to seq 12" in str(problem)


def test_a_line_of_any_length_is_named_and_does_not_fill_memory(directory: Path):
    written = write(directory, [0] * 4, sizes=(10_000, 10_000))
    lines = [line for _name, _number, line in written.lines]
    with (directory / "audit-000001.jsonl").open("wb") as file:
        file.write(lines[0])
        file.truncate(64 << 20)  # a hole: 64 MiB of NUL bytes without a newline
        file.seek(64 << 20)
        file.writelines([b"\n", *lines[1:]])
    (problem,) = verify(directory).problems
    assert named(problem) == ("inserted", "audit-000001.jsonl", 2, None)


def test_damage_everywhere_is_named_in_reasonable_time(directory: Path):
    written = write(directory, [0] * 4000, sizes=(1 << 24, 1 << 24))
    lines = [line for _name, _number, line in written.lines]
    lines[::2] = [line.replace(b"a.b", b"a.c") for line in lines[::2]]
    written.store(lines)
    assert [problem.seq for problem in verify(directory).problems] == list(range(1, 4000, 2))
    written.store(list(reversed([line for _name, _number, line in written.lines])))
    assert sum(problem.lines for problem in verify(directory).problems) == 3999


def test_verification_while_others_write_finds_nothing(directory: Path):
    with AuditLog.open(directory, max_file_bytes=500) as log:
        for _each in range(30):
            log.append("a", {})
            assert verify(directory).problems == ()


def test_no_log_is_not_a_verified_log(directory: Path):
    with pytest.raises(AuditError, match="can't be opened"):
        verify(directory)
    directory.mkdir()
    with pytest.raises(AuditError, match="there is no audit log"):
        verify(directory)


def test_a_file_that_is_a_link_is_not_followed(directory: Path, tmp_path: Path):
    write(directory, [0] * 3)
    (directory / "audit-000001.jsonl").rename(tmp_path / "elsewhere")
    (directory / "audit-000001.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError, match="can't be read"):
        verify(directory)
