"""W3: what others do to the files meanwhile, and what files keep."""

import contextlib
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gloveport.patch_text.text import revision
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import file_swap
from gloveport.workspace.patch.changes import Change
from gloveport.workspace.patch.commit import commit, plan_commit
from gloveport.workspace.patch.file_swap import Changed, FileStep
from gloveport.workspace.patch.journal import Journal
from gloveport.workspace.patch.staging import Staging
from gloveport.workspace.patch.writer import WriteOptions, Writer

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


@pytest.fixture
def writer(tree, tmp_path) -> Writer:
    return Writer(tree, tmp_path / "state")


@pytest.fixture
def directory(root) -> Iterator[int]:
    descriptor = os.open(root, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def committed(writer: Writer, contents: dict[str, bytes | None], meanwhile) -> None:
    """Stage contents, let something happen, commit."""
    with Journal.lock(writer.journal) as journal, ExitStack() as stack:
        staging = Staging(writer.tree, stack)
        for path, content in contents.items():
            staging.put(staging.target(path), content)
        meanwhile()
        targets = staging.finish()
        with commit(writer.tree, journal, targets, plan_commit(targets, (0, 1))):
            pass


def replace(path: Path, content: str) -> None:
    other = path.with_name("other")
    other.write_text(content)
    other.rename(path)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda root: (root / "b").write_text("X"),
        lambda root: replace(root / "b", "b"),
        lambda root: (root / "b").unlink(),
        lambda root: (root / "b").chmod(0o600),
        lambda root: (root / "new").write_text("X"),
        lambda root: (root / "new").symlink_to("/etc"),
        lambda root: (root / "dir").write_text("X"),
        lambda root: (root / "dir").mkdir(),
        lambda root: (root / "dir").symlink_to("/etc"),
        lambda root: ((root / "b").unlink(), (root / "b").mkdir()),
        lambda root: ((root / "b").unlink(), os.mkfifo(root / "b")),
        lambda root: ((root / "b").unlink(), (root / "b").symlink_to("a")),
    ],
    ids=range(12),
)
def test_what_somebody_else_changes_meanwhile_is_a_conflict_and_nothing_is_written(root, writer, meanwhile):
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    (root / "c").write_text("c")
    there = {}

    def happen() -> None:
        meanwhile(root)
        there.update({path.name: path.lstat() for path in root.iterdir()})

    with pytest.raises(WorkspaceError) as conflict:
        committed(writer, {"a": b"A", "new": b"n", "dir/x": b"x", "b": b"B", "c": None}, happen)
    assert (conflict.value.code, conflict.value.retryable) == ("PATCH_CONFLICT", True)
    after = {path.name: path.lstat() for path in root.iterdir()}
    assert {name: status.st_ino for name, status in after.items()} == {
        name: status.st_ino for name, status in there.items()
    }
    assert ((root / "a").read_text(), (root / "c").read_text()) == ("a", "c")
    assert writer.recover().outcome == "nothing"


@pytest.mark.parametrize("after", ["new", None])
def test_a_file_that_is_exchanged_at_the_last_moment_is_seen_and_put_back(root, directory, after):
    """What was taken away is looked at after it was, and not only before."""
    (root / "f").write_text("theirs")
    step = FileStep(path="f", hidden="hidden", before=revision(b"old"), after=after and revision(b"new"), inode=1)
    if after:
        (root / "hidden").write_text("new")
    with pytest.raises(Changed):
        file_swap.swap(directory, "f", step)
    assert file_swap.take_back(directory, "f", step)
    assert (names(root), (root / "f").read_text()) == ({"f"}, "theirs")


@pytest.mark.parametrize(
    ("there", "kept"),
    [
        ({"hidden": "old", "f": "edited"}, {"f": "edited"}),  # by a person, after the crash: it is theirs
        ({"hidden": "old"}, {"f": "old"}),
        ({"hidden": "ne", "f": "old"}, {"f": "old"}),  # half written
        ({"f": "anything"}, {"f": "anything"}),
    ],
)
def test_taking_back_leaves_alone_what_somebody_changed(root, directory, there, kept):
    for name, content in there.items():
        (root / name).write_text(content)
    old = next((root / name for name, content in there.items() if content == "old"), root)
    step = FileStep(path="f", hidden="hidden", before=revision(b"old"), after=revision(b"new"), inode=old.stat().st_ino)
    restored = file_swap.take_back(directory, "f", step)
    assert {path.name: path.read_text() for path in root.iterdir()} == kept
    assert restored == (kept["f"] != "edited")


def test_a_new_file_that_somebody_edits_after_a_crash_stays(root, directory):
    step = FileStep(path="f", hidden="hidden", before=None, after=revision(b"new"), inode=None)
    (root / "hidden").write_text("new")
    file_swap.swap(directory, "f", step)
    (root / "f").write_text("edited")
    assert not file_swap.take_back(directory, "f", step)
    assert (names(root), (root / "f").read_text()) == ({"f"}, "edited")


def test_readers_never_miss_a_file_and_never_see_half_of_one(root, writer):
    """CT-F6: 300 patches, and a process that reads as fast as it can."""
    whole = {number: f"{number}\n" * 5000 for number in (1, 2)}
    (root / "f").write_text(whole[1])
    reader = (
        "import sys\n"
        "whole = {(f'{n}\\n' * 5000) for n in (1, 2)}; bad = reads = 0\n"
        "print('ready', flush=True)\n"
        "while reads < 3000:\n"
        "    reads += 1\n"
        "    try: bad += open(sys.argv[1]).read() not in whole\n"
        "    except FileNotFoundError: bad += 1\n"
        "print(bad)\n"
    )
    with subprocess.Popen([sys.executable, "-ISc", reader, root / "f"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        number = 1
        while process.poll() is None:
            number = 3 - number
            content = whole[number]
            writer.apply_patch(patch("*** Add File: f", *("+" + line for line in content.splitlines())))
        assert process.stdout.read() == "0\n"


def test_a_program_that_exchanges_directories_with_links_leads_nothing_outside(root, tree, writer, exchanging):
    """CT-F4: for as long as 300 calls and 3,000 exchanges take."""
    outcomes: dict[str, int] = {}
    with exchanging(root) as exchanges:
        outside = root.parent / "outside"
        number, begin = 0, exchanges()
        while number < 300 or exchanges() < begin + 3_000:
            number += 1
            ask = [
                patch("*** Update File: dir/file", "@@", "-inside", "+inside"),
                patch("*** Add File: dir/file", f"+{number}"),
                patch("*** Add File: link/made/x", "+x", "*** Add File: file", "+x"),
                patch("*** Delete File: dir/made/x", "*** Add File: dir/new", "+n"),
                patch("*** Update File: file", "*** Move to: link/moved"),
                patch("*** Add File: way/file", f"+{number}", "*** Add File: dir/other", f"+{number}"),
            ][number % 6]
            try:
                writer.apply_patch(ask)
                outcome = "done"
            except WorkspaceError as error:
                outcome = error.code
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": b"outside"}
    assert not {"INTERNAL_ERROR", "PATCH_ROLLBACK_FAILED", "PATCH_FAILED"} & outcomes.keys(), outcomes
    assert outcomes["done"]
    assert not [path for path in root.rglob(".gloveport-*") if not path.is_symlink()]


def test_writers_of_several_processes_wait_for_each_other(gloveport, root, tmp_path, writer):
    (root / "n").write_text("0\n")
    program = (
        "import sys, pathlib\n"
        "from gloveport.workspace.files.tree import Tree\n"
        "from gloveport.workspace.patch.writer import Writer\n"
        "with Tree.open_tree(pathlib.Path(sys.argv[1])) as tree:\n"
        "    for number in range(25):\n"
        "        Writer(tree, pathlib.Path(sys.argv[2])).apply_patch(\n"
        "            f'*** Begin Patch\\n*** Update File: n\\n@@\\n+{sys.argv[3]} {number}\\n*** End Patch')\n"
    )
    (script := tmp_path / "writes.py").write_text(program)
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(gloveport.start_script(script, root, writer.journal, name)) for name in "ab"]
    assert [process.returncode for process in processes] == [0, 0]
    lines = (root / "n").read_text().splitlines()
    assert sorted(lines[1:]) == sorted(f"{name} {number}" for name in "ab" for number in range(25))


def test_modes_are_kept_and_new_files_have_the_usual_one(root, writer):
    for name, mode in (("a", 0o750), ("b", 0o600), ("c", 0o644)):
        (root / name).write_text(f"{name}\n")
        (root / name).chmod(mode)
    writer.apply_patch(
        patch("*** Add File: a", "+2", "*** Update File: b", "*** Move to: c", "*** Add File: d/e", "+3")
    )
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "c", "d/e", "d")] == [
        0o750,
        0o600,
        0o644,
        0o755,
    ]
    writer.undo()
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in "abc"] == [0o750, 0o600, 0o644]


@pytest.mark.parametrize(
    ("umask", "file", "directory"), [(0o077, 0o600, 0o700), (0o027, 0o640, 0o750), (0, 0o644, 0o755)]
)
def test_new_files_and_directories_have_no_more_than_the_owners_umask_lets(root, writer, umask, file, directory):
    before = os.umask(umask)
    try:
        writer.apply_patch(patch("*** Add File: made/new", "+1"))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("made/new", "made")]
    assert modes == [file, directory]


def test_no_bit_is_set_that_gives_rights_and_that_is_told(root, writer):
    (root / "a").write_text("1\n")
    (root / "a").chmod(0o6755)
    outcome = writer.apply_patch(patch("*** Update File: a", "-1", "+2"))
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert "set-user-id" in outcome.answer["warnings"][0]


def test_extended_attributes_are_kept(root, writer):
    """CT-F7"""
    (root / "a").write_text("1\n")
    os.setxattr(root / "a", "user.note", b"\x00kept")
    outcome = writer.apply_patch(patch("*** Update File: a", "*** Move to: b", "-1", "+2"))
    assert os.getxattr(root / "b", "user.note") == b"\x00kept"
    assert outcome.answer["warnings"] == []
    writer.undo()
    assert os.getxattr(root / "a", "user.note") == b"\x00kept"


def test_what_is_saved_twice_at_the_moments_of_the_exchanges_stays_as_it_was_saved_last(root, writer, monkeypatch):
    """Before the patch puts its file there, and each time that it would put back what it has found."""
    for saves in (1, 2, 3, 5):
        (root / "a").write_text("old\n")
        pending = [f"save {number}\n" for number in range(saves)]
        with monkeypatch.context() as during:
            during.setattr(file_swap, "rename", _after_save(root / "a", pending, file_swap.rename))
            with pytest.raises(WorkspaceError) as refusal:
                writer.apply_patch(patch("*** Update File: a", "-old", "+new"))
        assert refusal.value.code == "PATCH_CONFLICT"
        assert ((root / "a").read_text(), names(root), pending) == (f"save {saves - 1}\n", {"a"}, [])


def test_what_is_saved_when_a_new_file_is_taken_back_stays(root, writer, monkeypatch):
    (root / "z").write_text("old\n")
    pending, steps = ["saved\n"], []

    def change(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            steps.append(real)
            if len(steps) == 1:  # the swap of the second file
                replace(root / "z", "changed\n")
            elif "a" in arguments and pending:
                replace(root / "a", pending.pop())
            return real(*arguments, **options)

        return call

    monkeypatch.setattr(file_swap, "rename", change(file_swap.rename))
    monkeypatch.setattr(os, "unlink", change(os.unlink))
    with pytest.raises(WorkspaceError, match="somebody else"):
        writer.apply_patch(patch("*** Add File: a", "+new", "*** Update File: z", "-old", "+new"))
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "saved\n", "z": "changed\n"}
    assert not pending


def _after_save(path: Path, pending: list[str], real: Callable[..., Any]) -> Callable[..., Any]:
    """The function, before each call of which somebody saves a file."""

    def call(*arguments: Any) -> Any:
        if pending:
            replace(path, pending.pop(0))
        return real(*arguments)

    return call


def test_a_file_with_attributes_of_megabytes_is_not_changed():
    """CT-F7: here there may be thousands of 64 KiB each, which a change would read, and keep for an undo."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        root = Path(directory) / "workspace"
        root.mkdir()
        (root / "a").write_text("1\n")
        try:
            for number in range(3):
                os.setxattr(root / "a", f"user.{number}", bytes(1 << 16))
        except OSError:
            pytest.skip("the file system has no such attributes")
        with Tree.open_tree(root) as tree:
            writer = Writer(tree, Path(directory) / "state")
            with pytest.raises(WorkspaceError, match="extended attributes") as refusal:
                writer.apply_patch(patch("*** Update File: a", "-1", "+2"))
            assert refusal.value.code == "PATCH_FAILED"
            os.removexattr(root / "a", "user.0")
            writer.apply_patch(patch("*** Update File: a", "-1", "+2"))
        assert {name: len(os.getxattr(root / "a", name)) for name in os.listxattr(root / "a")} == {
            "user.1": 1 << 16,
            "user.2": 1 << 16,
        }


def test_access_control_lists_are_kept_and_not_made_up(root, writer):
    """CT-F7: version 2; owner rw, user 1234 r, group r, mask r, others nothing."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, 1234), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    acl = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + who.to_bytes(4, "little")
        for tag, rights, who in entries
    )
    for name in "ab":
        (root / name).write_text("1\n")
    (root / "b").chmod(0o640)
    try:
        os.setxattr(root / "a", "system.posix_acl_access", acl)
        os.setxattr(root, "system.posix_acl_default", acl)  # what is new here would have one
    except OSError:
        pytest.skip("the file system has no access control lists")
    writer.apply_patch(patch("*** Add File: a", "+2", "*** Add File: b", "+2"))
    assert os.getxattr(root / "a", "system.posix_acl_access") == acl
    assert "system.posix_acl_access" not in os.listxattr(root / "b")
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o640


@as_root
def test_root_gives_files_to_those_they_belong_to(root, writer):
    """CT-F7"""
    os.chown(root, 1001, 1002)
    (root / "a").write_text("1\n")
    os.chown(root / "a", 1003, 1004)
    (root / "gone").write_text("1\n")
    os.chown(root / "gone", 1005, 1006)
    writer.apply_patch(patch("*** Add File: a", "+2", "*** Add File: d/e/new", "+3", "*** Delete File: gone"))

    def owners(*paths: str) -> list[tuple[int, int]]:
        return [((root / path).stat().st_uid, (root / path).stat().st_gid) for path in paths]

    assert owners("a", "d", "d/e", "d/e/new") == [(1003, 1004), (1001, 1002), (1001, 1002), (1001, 1002)]
    writer.undo()
    assert owners("a", "gone") == [(1003, 1004), (1005, 1006)]
    assert names(root) == {"a", "gone"}


@as_root
def test_rights_of_a_program_do_not_pass_to_another(root, writer):
    (root / "a").write_text("1\n")
    os.setxattr(root / "a", "security.capability", bytes.fromhex("0100000200200000" + "00" * 12))
    outcome = writer.apply_patch(patch("*** Add File: a", "+2"))
    assert os.listxattr(root / "a") == []
    assert "security.capability" in outcome.answer["warnings"][0]


def test_a_file_with_other_names_is_replaced_and_that_is_told(root, writer):
    (root / "a").write_text("1\n")
    (root / "b").hardlink_to(root / "a")
    outcome = writer.apply_patch(patch("*** Add File: a", "+2"))
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("2\n", "1\n")
    assert "hard links" in outcome.answer["warnings"][0]


def test_a_link_is_not_written_to_and_one_on_the_way_is_followed(root, writer):
    (root / "d").mkdir()
    (root / "way").symlink_to("d")
    (root / "d/a").write_text("1\n")
    (root / "link").symlink_to("d/a")
    outcome = writer.apply_patch(patch("*** Update File: way/a", "-1", "+2"))
    assert outcome.answer["affected_files"][0]["path"] == "d/a"
    with pytest.raises(WorkspaceError) as refusal:
        writer.apply_patch(patch("*** Update File: link", "-2", "+3"))
    assert (refusal.value.code, (root / "d/a").read_text()) == ("SYMLINK_ESCAPE", "2\n")
    with pytest.raises(WorkspaceError, match="two operations"):
        writer.apply_patch(patch("*** Update File: way/a", "-2", "+3", "*** Delete File: d/a"))


def test_a_file_that_another_is_moved_onto_is_told(root, writer):
    (root / "a").write_text("1\n")
    (root / "b").write_text("2\n")
    moved = writer.apply_patch(patch("*** Update File: a", "*** Move to: b"))
    assert moved.answer["warnings"] == ["b was there, and is replaced by a"]
    (root / "a").write_text("3\n")
    outcome = writer.apply_patch(patch("*** Delete File: b", "*** Update File: a", "*** Move to: b"))
    assert (outcome.answer["warnings"], (root / "b").read_text()) == ([], "3\n")


@pytest.mark.parametrize("name", ["fifo", "huge"])
def test_what_is_no_file_of_bounded_size_is_refused_at_once(root, writer, name):
    """CT-R2, CT-R5 for writes."""
    os.mkfifo(root / "fifo")
    with (root / "huge").open("wb") as huge:
        huge.truncate(700 << 20)
    for ask in (["*** Update File: ", "-x"], ["*** Delete File: "], ["*** Add File: ", "+x"]):
        with pytest.raises(WorkspaceError) as refusal:
            writer.apply_patch(patch(ask[0] + name, *ask[1:]))
        assert refusal.value.code == {"fifo": "NOT_A_FILE", "huge": "PATCH_FAILED"}[name]


def test_many_large_files_are_too_much_together(root, writer):
    for number in range(5):
        (root / str(number)).write_bytes(b"x" * (15 << 20))
    with pytest.raises(WorkspaceError, match="64 MiB"):
        writer.apply_patch(patch(*(f"*** Delete File: {number}" for number in range(5))))


def test_a_file_name_that_is_not_utf_8_can_be_patched(root, writer):
    path = Path(os.fsdecode(os.fsencode(root) + b"/a\xff"))
    path.write_text("1\n")
    outcome = writer.apply_patch(patch("*** Update File: a\\xff", "-1", "+2"))
    assert path.read_text() == "2\n"
    assert outcome.answer["affected_files"][0]["path"] == "a\\xff"


def test_a_name_that_is_too_long_gives_a_plain_error_and_nothing_is_written(root, writer):
    (root / "a").write_text("1\n")
    with pytest.raises(WorkspaceError) as refusal:
        writer.apply_patch(patch("*** Add File: a", "+2", f"*** Add File: d/{'x' * 300}", "+2"))
    assert refusal.value.code == "INVALID_ARGUMENT"
    assert "longer" in str(refusal.value.args[0])
    assert (names(root), (root / "a").read_text()) == ({"a"}, "1\n")


@pytest.mark.parametrize("paths", [["d/" * 2000 + "x"], ["d/" * 201 + "x"], [f"{a}/{'d/' * 60}x" for a in "abcd"]])
def test_a_change_that_would_make_very_many_directories_is_refused(root, writer, paths):
    """CT-R4, CT-G6: each takes a descriptor of the server, and time of everybody who waits."""
    with pytest.raises(WorkspaceError, match="more than 200 directories") as refusal:
        writer.apply_patch(patch(*(line for path in paths for line in (f"*** Add File: {path}", "+x"))))
    assert refusal.value.code == "PATCH_FAILED"
    assert not names(root)


def test_a_disk_that_takes_no_more_gives_a_plain_error_and_nothing_is_written(root, writer):
    (root / "a").write_text("1\n")
    (root / "b").write_text("1\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(WorkspaceError) as refusal:
            writer.apply_patch(
                patch("*** Add File: d/b", "+2", "*** Add File: a", "+2", "*** Add File: b", "+" + "x" * 5000)
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refusal.value.code == "PATCH_FAILED"
    assert (names(root), (root / "a").read_text()) == ({"a", "b"}, "1\n")


def test_a_directory_that_is_closed_gives_a_plain_error_and_nothing_is_written(root, directory, tmp_path):
    """W3: to root none is, so for root this one is on a file system of its own that nobody may write to."""
    writer = Writer(Tree(root, frozenset(), directory), tmp_path / "state")  # as who is not root has it, with mounts
    for name in "ab":
        (root / name).mkdir()
    (root / "b").chmod(0o500)
    with closed(root / "b"), pytest.raises(WorkspaceError) as refusal:
        writer.apply_patch(patch("*** Add File: a/x", "+2", "*** Add File: b/x", "+2"))
    assert refusal.value.code == "PATCH_FAILED"
    assert not [path for path in root.rglob("*") if path.is_file()]


@contextlib.contextmanager
def closed(directory):
    """Nobody may write to it."""
    if os.geteuid():
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def test_a_patch_with_half_a_character_is_refused(writer):
    with pytest.raises(WorkspaceError) as refusal:
        writer.apply_patch(patch("*** Add File: a", "+\ud800"))
    assert refusal.value.code == "INVALID_ARGUMENT"
    with pytest.raises(WorkspaceError):
        writer.apply_changes([Change(action="create", path="a", content="\ud800")])


def test_threads_that_write_at_the_same_time_wait_for_each_other(root, writer):
    (root / "n").write_text("")
    threads = [
        threading.Thread(target=writer.apply_patch, args=[patch("*** Update File: n", f"+{number}")], daemon=True)
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, (root / "n").read_text().split())) == [*range(20)]


def test_a_dry_run_writes_nothing_at_all(root, writer):
    (root / "a").write_text("1\n")
    outcome = writer.apply_patch(patch("*** Add File: d/x", "+1", "*** Delete File: a"), WriteOptions(dry_run=True))
    assert (outcome.answer["dry_run"], outcome.written, names(root)) == (True, (), {"a"})
    with pytest.raises(WorkspaceError, match="no change"):
        writer.undo()


def test_a_change_of_200_files_is_quick(root, writer):
    began = time.process_time()
    writer.apply_patch(patch(*(f"*** Add File: d{n % 7}/{n}\n+{n}" for n in range(200))))
    assert len([path for path in root.rglob("*") if path.is_file()]) == 200
    assert time.process_time() - began < 2


MEDDLER = """
import os, sys
place, outside = sys.argv[1:]
number = 0
print("ready", flush=True)
while True:
    for name in os.listdir(place):
        number += 1
        path = f"{place}/{name}"
        try:
            if name.startswith(".gloveport-"):
                if number % 4 == 0:
                    os.symlink(outside, path + "x"); os.rename(path + "x", path)
                elif number % 4 == 1:
                    os.unlink(path)
                elif number % 4 == 2:
                    os.unlink(path); os.mkfifo(path)
                else:
                    os.rename(path, f"{place}/a")
            elif number % 7 == 0:
                os.symlink(outside, path + "x"); os.rename(path + "x", path)
            elif number % 7 == 3:
                os.unlink(path)
        except OSError:
            pass
"""


def test_a_program_that_meddles_with_what_is_hidden_leads_nothing_outside(root, writer):
    """CT-F4: it finds hidden names as they come, and puts links, FIFOs and other files in their place."""
    outside = root.parent / "outside"
    outside.write_text("outside")
    mode = outside.stat().st_mode
    codes = set()
    command = [sys.executable, "-ISc", MEDDLER, root, outside]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as meddler:
        try:
            meddler.stdout.readline()
            for number in range(100):
                try:
                    writer.apply_patch(
                        patch(
                            "*** Add File: a", f"+{number}", "*** Add File: b", f"+{number}", "*** Add File: d/c", "+"
                        )
                    )
                    codes.add("done")
                except WorkspaceError as error:
                    codes.add(error.code)
        finally:
            meddler.kill()
    assert (outside.read_text(), outside.stat().st_mode) == ("outside", mode)
    assert "INTERNAL_ERROR" not in codes
    for path in root.iterdir():
        if not path.is_dir():
            path.unlink()
    writer.apply_patch(patch("*** Add File: a", "+at last"))
    assert (root / "a").read_text() == "at last\n"
