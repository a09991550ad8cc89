"""W3: the journal is this user's alone, and what is torn in it was never acted upon."""

import os
from pathlib import Path

import pytest

from gloveport.patch_text.parsing import parse_patch
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.file_swap import FileStep
from gloveport.workspace.patch.journal import BEGUN, DONE, CommitRecord, Journal, seal
from gloveport.workspace.patch.writer import Writer

STEP = FileStep(path="d/f", hidden=".gloveport-1", before=None, after="a" * 64, inode=None)
RECORD = CommitRecord(steps=(STEP,), made=("d",), emptied=(), undo=(3, 4))


@pytest.fixture
def state(tmp_path) -> Path:
    return tmp_path / "state"


def test_a_record_is_read_as_it_was_written(state):
    with Journal.lock(state) as journal:
        assert journal.last() is None
        journal.begin(RECORD)
    with Journal.lock(state) as journal:
        assert journal.last() == (BEGUN, RECORD)
        journal.commit(RECORD)
        journal.end(DONE)
        assert journal.last() == (DONE, RECORD)


def test_a_torn_record_is_none(state):
    with Journal.lock(state) as journal:
        journal.begin(RECORD)
        whole = (state / "journal").read_bytes()
        for end in range(0, len(whole), 7):
            (state / "journal").write_bytes(whole[:end])
            assert journal.last() is None
            (state / "journal").write_bytes(whole[:end] + b"x" + whole[end + 1 :])
            assert end == 0 or journal.last() is None


def test_what_another_version_has_done_is_none_and_what_it_has_left_undone_is_told(state, tree):
    """W3: a server of this version starts, and overwrites no record that is still needed."""
    writer = Writer(tree, journal=state)
    writer.apply_patch("*** Begin Patch\n*** Add File: f\n+a\n*** End Patch")
    (state / "undo-1").write_bytes(seal(b'{"new": 1}'))
    (state / "journal").write_bytes(DONE + seal(b'{"new": 1}'))
    assert writer.recover().outcome == "nothing"
    (state / "journal").write_bytes(BEGUN + seal(b'{"new": 1}'))
    with pytest.raises(WorkspaceError, match="another version") as raised:
        writer.recover()
    assert str(state / "journal") in raised.value.hint


def test_a_shorter_record_over_a_longer_one_is_whole(state):
    longer = CommitRecord(steps=(STEP,) * 20, made=(), emptied=(), undo=(0, 1))
    with Journal.lock(state) as journal:
        journal.begin(longer)
        journal.begin(RECORD)
        assert journal.last() == (BEGUN, RECORD)


def test_the_directory_is_made_for_its_owner_alone(state):
    with Journal.lock(state / "deep"):
        assert (state / "deep").stat().st_mode & 0o777 == 0o700
        assert (state / "deep/journal").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: (path.touch(), os.truncate(path, 1 << 40))])
def test_a_journal_that_is_a_pipe_or_endless_is_refused(state, tree, make):
    state.mkdir(mode=0o700)
    make(state / "journal")
    with pytest.raises(WorkspaceError, match="what is called journal there is none") as refusal:
        Writer(tree, state).recover()
    assert refusal.value.code == "RUNTIME_DIR_UNWRITABLE"
    assert "move it away" in refusal.value.hint


def test_a_directory_that_others_may_enter_is_refused(state, tree):
    state.mkdir()
    state.chmod(0o755)
    with pytest.raises(WorkspaceError) as refusal:
        Writer(tree, state).recover()
    assert refusal.value.code == "RUNTIME_DIR_UNWRITABLE"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_directory_that_is_none_is_refused(state, tree, tmp_path, kind):
    if kind == "file":
        state.write_text("")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        state.symlink_to("elsewhere")
    with pytest.raises(WorkspaceError) as refusal:
        Writer(tree, state).recover()
    assert refusal.value.code == "RUNTIME_DIR_UNWRITABLE"


def test_what_was_moved_away_after_a_crash_is_told(root, tree, state):
    (root / "d").mkdir()
    (root / "d/f").write_text("1\n")
    record = CommitRecord(steps=(STEP,), made=(), emptied=(), undo=(0, 1))
    with Journal.lock(state) as journal:
        journal.begin(record)
    (root / "d").rename(root / "elsewhere")
    (root / "d").symlink_to("elsewhere")
    recovery = Writer(tree, state).recover()
    assert (recovery.outcome, recovery.untouched_files) == ("old", ("d/f",))
    assert Writer(tree, state).recover().outcome == "nothing"
    assert [path.name for path in (root / "elsewhere").iterdir()] == ["f"]


@pytest.mark.parametrize("path", ["proc/sys/new", "proc/version"])
def test_who_can_not_wait_writes_to_no_other_mount(state, path):
    """W3, CT-R5: a file system that never answers would hold up everybody. Here it is the machine's own."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        writer = Writer(Tree(Path("/"), frozenset(), root), state)
        operations = parse_patch(f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")
        with pytest.raises(WorkspaceError) as refusal, writer.stage_at_once(operations, 1000):
            pass
        assert refusal.value.code == "PATH_OUTSIDE_WORKSPACE"
    finally:
        os.close(root)


def test_who_can_not_wait_follows_no_link(root, tree, state):
    """W1: 40 of them, each of four kilobytes, take milliseconds, at each look at each of many paths."""
    (root / "link").symlink_to(".")
    operations = parse_patch("*** Begin Patch\n*** Add File: link/a\n+x\n*** End Patch")
    writer = Writer(tree, state)
    with pytest.raises(WorkspaceError), writer.stage_at_once(operations, 1000):
        pass
    assert writer.apply_patch("*** Begin Patch\n*** Add File: link/a\n+x\n*** End Patch").written == ("a",)


def test_who_can_not_wait_leaves_what_was_interrupted_to_others(root, tree, state):
    """W3: it may be in another mount, and would be taken for gone."""
    operations = parse_patch("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch")
    with Journal.lock(state) as journal:
        journal.begin(RECORD)
    writer = Writer(tree, state)
    with pytest.raises(BlockingIOError), writer.stage_at_once(operations, 1000):
        pass
    with Journal.lock(state) as journal:
        assert journal.last() == (BEGUN, RECORD)
    writer.recover()
    with writer.stage_at_once(operations, 1000) as (_, apply):
        apply()
    assert (root / "a").read_text() == "x\n"


def test_who_can_not_wait_does_not_look_long_for_a_hunk(root, tree, state):
    """P38: the indentation of each line is compared with that of the hunk, which is none of the file's."""
    (root / "a").write_text(" a\n" * 3000)
    operations = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n-a\n-  a\n*** End Patch")
    with (
        pytest.raises(WorkspaceError, match="too long to find"),
        Writer(tree, state).stage_at_once(operations, 1 << 18),
    ):
        pass
