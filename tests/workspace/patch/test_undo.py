"""W3: the last change can be taken back, if nobody changed its files since."""

import os
import resource

import pytest

from gloveport.patch_text import parsing
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch import undo
from gloveport.workspace.patch.changes import Change
from gloveport.workspace.patch.writer import Writer


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


@pytest.fixture
def writer(tree, tmp_path) -> Writer:
    return Writer(tree, tmp_path / "state")


def add(writer: Writer, name: str, content: str) -> None:
    writer.apply_changes([Change(action="create", path=name, content=content)])


def test_changes_are_taken_back_one_by_one(root, writer):
    (root / "a").write_text("0\n")
    for number in range(3):
        writer.apply_patch(patch("*** Update File: a", f"-{number}", f"+{number + 1}"))
    for number in (2, 1, 0):
        outcome = writer.undo()
        assert (root / "a").read_text() == f"{number}\n"
        assert outcome.answer["summary"] == "M a"
        assert outcome.written == ("a",)
    with pytest.raises(WorkspaceError) as refusal:
        writer.undo()
    assert refusal.value.code == "NOT_FOUND"


def test_rights_that_were_taken_from_a_file_since_stay_taken(root, writer):
    (root / "a").write_text("0\n")
    writer.apply_patch(patch("*** Update File: a", "-0", "+1"))
    (root / "a").chmod(0o600)
    writer.undo()
    assert ((root / "a").read_text(), (root / "a").stat().st_mode & 0o777) == ("0\n", 0o600)


def test_what_a_change_took_away_with_a_file_comes_back_with_it(root, writer):
    """Its rights: those of a deleted file, and of one that another was moved to."""
    for name, mode in (("gone", 0o700), ("moved", 0o640), ("there", 0o600)):
        (root / name).write_text(f"{name}\n")
        (root / name).chmod(mode)
    writer.apply_patch(patch("*** Delete File: gone", "*** Update File: moved", "*** Move to: there"))
    assert (root / "there").stat().st_mode & 0o777 == 0o640
    writer.undo()
    modes = {path.name: path.stat().st_mode & 0o777 for path in root.iterdir()}
    assert modes == {"gone": 0o700, "moved": 0o640, "there": 0o600}


def test_a_server_that_starts_anew_can_take_back_too(root, tree, writer):
    add(writer, "d/a", "1")
    Writer(tree, writer.journal).undo()
    assert not [*root.iterdir()]


def test_a_directory_that_holds_something_else_by_now_stays(root, writer):
    add(writer, "d/e/a", "1")
    (root / "d/other").write_text("")
    writer.undo()
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["d", "d/other"]


@pytest.mark.parametrize("meanwhile", ["changed", "gone", "there again"])
def test_a_file_that_was_changed_since_is_left_alone_and_all_others_too(root, writer, meanwhile):
    for name in "abc":
        (root / name).write_text("1\n")
    writer.apply_patch(patch("*** Add File: a", "+2", "*** Add File: b", "+2", "*** Delete File: c"))
    path = root / {"changed": "b", "gone": "b", "there again": "c"}[meanwhile]
    path.unlink(missing_ok=True)
    if meanwhile != "gone":
        path.write_text("mine")
    before = {each.name: each.read_text() for each in root.iterdir()}
    with pytest.raises(WorkspaceError) as refusal:
        writer.undo()
    assert (refusal.value.code, refusal.value.details["path"]) == ("REVISION_MISMATCH", path.name)
    assert {each.name: each.read_text() for each in root.iterdir()} == before


def test_what_is_kept_is_bounded_in_number(root, writer):
    for number in range(undo.ENTRIES + 4):
        add(writer, str(number), "x")
    for _ in range(undo.ENTRIES):
        writer.undo()
    with pytest.raises(WorkspaceError, match="no change"):
        writer.undo()
    assert {path.name for path in root.iterdir()} == {*"0123"}
    assert len([*writer.journal.iterdir()]) == undo.ENTRIES + 1


def test_what_is_kept_is_bounded_in_size(root, writer):
    for number in range(6):
        (root / str(number)).write_bytes(b"x" * (4 << 20))
        writer.apply_patch(patch(f"*** Delete File: {number}"))
    assert sum(path.stat().st_size for path in writer.journal.iterdir()) < 5 << 20
    writer.undo()
    assert (root / "5").stat().st_size == 4 << 20
    for number in range(undo.ENTRIES):
        add(writer, f"small {number}", "x")
    assert sum(path.stat().st_size for path in writer.journal.iterdir()) < 1 << 20


def test_a_change_for_which_there_is_no_space_costs_none_before_it(root, writer):
    """W3: the journal's own record, too, which is longer than the last one."""
    add(writer, "a", "1")
    add(writer, "b", "2")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limit[1]))  # ENOSPC would come at the same places
    try:
        with pytest.raises(WorkspaceError) as refusal:
            writer.apply_patch(patch(*(line for number in range(100) for line in (f"*** Add File: f{number}", "+x"))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (refusal.value.code, refusal.value.retryable) == ("PATCH_FAILED", True)
    assert "state directory" in refusal.value.hint, "that is another disk than the workspace's"
    assert {path.name for path in root.iterdir()} == {"a", "b"}
    add(writer, "c", "3")
    assert [writer.undo().answer["summary"] for _ in range(3)] == ["D c", "D b", "D a"]


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: path.symlink_to("elsewhere"),
        lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    ],
    ids=["pipe", "directory", "link", "endless"],
)
def test_what_lies_in_the_place_of_an_entry_and_is_none_holds_nobody_up(root, writer, make):
    """Neither the start of a server, nor a change, which can't be taken back then."""
    for number in range(undo.ENTRIES):
        add(writer, f"{number}", "1")
    entry = writer.journal / f"undo-{1 % undo.ENTRIES}"
    entry.unlink()
    make(entry)
    writer.recover()
    add(writer, "last", "1")
    assert (root / "last").read_text() == "1"


def test_an_entry_that_is_torn_is_none(root, writer):
    (root / "a").write_text("1\n")
    writer.apply_patch(patch("*** Add File: a", "+2"))
    entry = writer.journal / "undo-1"
    whole = entry.read_bytes()
    for torn in (whole[:-1], whole[:40], b"", whole.replace(b'"made":[]', b'"made":{}'), b"\xff" * 100):
        entry.write_bytes(torn)
        with pytest.raises(WorkspaceError, match="no change"):
            writer.undo()
    entry.write_bytes(whole)
    writer.undo()
    assert (root / "a").read_text() == "1\n"


def power_cut(writer: Writer, journal: bytes) -> None:
    """The disk has all but the journal, which is as it was."""
    (writer.journal / "journal").write_bytes(journal)


@pytest.fixture
def behind(root, writer) -> Writer:
    """A writer whose journal is older than its last change."""
    (root / "a").write_text("0\n")
    (root / "b").write_text("0\n")
    writer.apply_patch(patch("*** Update File: a", "-0", "+1"))
    journal = (writer.journal / "journal").read_bytes()
    writer.apply_patch(patch("*** Update File: b", "-0", "+1"))
    power_cut(writer, journal)
    return writer


def contents(root) -> tuple[str, str]:
    return (root / "a").read_text(), (root / "b").read_text()


@pytest.mark.parametrize("starts", [True, False])
def test_the_last_change_is_the_last_also_where_the_journal_is_older(root, behind, starts):
    """W3: after a power cut; the older one would have been taken back beneath it."""
    if starts:
        behind.recover()
    assert behind.describe_undo() == [("edit", "b")]
    assert behind.undo().written == ("b",)
    assert contents(root) == ("1\n", "0\n")
    assert behind.undo().written == ("a",)
    assert contents(root) == ("0\n", "0\n")
    assert behind.describe_undo() == []


def test_a_change_that_the_disk_has_not_learnt_of_is_none(root, behind):
    """W3: it was taken back as a whole by the power cut."""
    (root / "b").write_text("0\n")
    behind.recover()
    assert behind.undo().written == ("a",)
    (root / "b").write_text("1\n")  # by hand
    assert behind.describe_undo() == []


def test_changes_go_on_where_the_tree_is_and_not_where_the_journal_was(root, behind):
    """W3."""
    behind.recover()
    behind.apply_patch(patch("*** Update File: a", "-1", "+2"))
    for left in (("1\n", "1\n"), ("1\n", "0\n"), ("0\n", "0\n")):
        behind.undo()
        assert contents(root) == left


def test_what_was_taken_back_and_then_made_by_hand_is_nothing_to_take_back(root, writer):
    """W3: it is somebody else's."""
    (root / "a").write_text("0\n")
    writer.apply_patch(patch("*** Update File: a", "-0", "+1"))
    writer.undo()
    (root / "a").write_text("1\n")
    writer.recover()
    assert writer.describe_undo() == []


def test_what_did_not_come_about_and_was_then_made_by_hand_neither(root, writer):
    """W3."""
    (root / "a").write_text("0\n")
    with writer.stage_at_once(parsing.parse_patch(patch("*** Update File: a", "-0", "+1")), 1000) as (_, apply):
        (root / "a").write_text("00\n")
        with pytest.raises(WorkspaceError, match="somebody else"):
            apply()
    (root / "a").write_text("1\n")
    assert writer.describe_undo() == []


def test_what_undo_would_do_is_told_and_what_it_has_done(root, writer):
    """W5, T6: for the log, before and after."""
    assert writer.describe_undo() == []
    (root / "a").write_text("1\n")
    (root / "b").write_text("1\n")
    done = writer.apply_patch(patch("*** Update File: a", "-1", "+2", "*** Delete File: b", "*** Add File: d/c", "+1"))
    assert (done.written, done.deleted) == (("a", "d/c"), ("b",))
    assert sorted(writer.describe_undo()) == [("create", "b"), ("delete", "d/c"), ("edit", "a")]
    back = writer.undo()
    assert (sorted(back.written), back.deleted) == (["a", "b"], ("d/c",))
    assert writer.describe_undo() == []
