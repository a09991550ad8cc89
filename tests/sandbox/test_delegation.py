"""E4, E5: where groups are made: on this kernel, beside other servers; and on stand-in directories."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

import pytest

from gloveport.errors import SandboxError
from gloveport.model import Limits
from gloveport.sandbox.cgroups.cgroup import remove
from gloveport.sandbox.cgroups.delegation import detect, step_aside
from gloveport.sandbox.reaper.reaper import PATIENCE_SECONDS

PTRACE_SEIZE, PTRACE_CONT, PTRACE_O_TRACEEXIT = 0x4206, 7, 0x40
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino

SERVES = """
import time
from gloveport.errors import SandboxError
from gloveport.sandbox.cgroups.cgroup import remove
from gloveport.sandbox.cgroups.delegation import detect, step_aside
from gloveport.sandbox.reaper.reaper import PATIENCE_SECONDS
try:
    print(detect().directories["pids"], flush=True)
except SandboxError as error:
    print(error, flush=True)
time.sleep(1000)
"""


def go(child):
    print(file=child.stdin, flush=True)


def places(tree):
    return set(tree.directories.values())


def group_of(pid, controller, version):
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    return next(path for _, names, path in lines if (names == "" if version == 2 else controller in names.split(",")))


def test_whoever_is_not_in_a_sandbox_stays_where_it_is_and_alive(tree, start):
    """The shell that started a server must outlive it."""
    neighbour = start("")
    before = {controller: group_of(neighbour.pid, controller, tree.version) for controller in tree.directories}
    other = detect()
    with other.group("run-beside", Limits()):
        pass
    other.close()
    tree.close()
    assert {controller: group_of(neighbour.pid, controller, tree.version) for controller in tree.directories} == before
    assert neighbour.poll() is None


def test_servers_side_by_side_do_not_touch_each_other(tree, start):
    second = start(SERVES)
    go(second)
    theirs = Path(second.stdout.readline().strip())
    assert theirs.parent == tree.directories["pids"].parent
    third = detect()
    with tree.group("run-same", Limits()), third.group("run-same", Limits()) as group:
        group.attach(start("").pid)
    third.close()
    with tree.group("run-after", Limits()) as group:
        group.attach(start("").pid)
    assert theirs.exists()
    second.kill()
    second.wait()
    detect().close()
    assert not theirs.exists()


def test_directories_of_a_dead_server_are_removed_by_the_next_one(tree, start):
    """E5."""
    server = start(SERVES)
    go(server)
    name = Path(server.stdout.readline().strip()).name
    left = {directory.parent / name for directory in places(tree)}
    for directory in left:
        (directory / "run-unfinished").mkdir()
    server.kill()
    server.wait()
    assert all(directory.exists() for directory in left)
    detect().close()
    assert not any(directory.exists() for directory in left)


@pytest.mark.parametrize("case", ["another pid namespace", "alive"])
def test_the_sweep_spares_what_may_be_in_use(tree, start, case):
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    name = {
        "another pid namespace": "gloveport-1-999999999-1-00",
        "alive": f"gloveport-{NAMESPACE}-{os.getpid()}-{started}-00",
    }[case]
    directory = tree.directories["pids"].parent / name
    run = directory / "run-used"
    run.mkdir(parents=True)
    child = start("")
    try:
        (run / "cgroup.procs").write_text(str(child.pid))
        detect().close()
        assert run.exists()
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
        run.rmdir()
        directory.rmdir()


def test_the_sweep_ends_what_a_dead_server_has_left(tree, start, eventually):
    """P9: a bubblewrap whose parent was killed too early waits for its word for ever, and holds its uid."""
    run = tree.directories["pids"].parent / f"gloveport-{NAMESPACE}-999999999-1-00" / "run-left"
    child = start("")

    def enter():
        with contextlib.suppress(FileNotFoundError):  # a server of another test sweeps too
            run.mkdir(parents=True, exist_ok=True)
            return (run / "cgroup.procs").write_text(str(child.pid))

    eventually(enter)
    detect().close()
    assert child.wait() == -signal.SIGKILL
    assert not run.parent.exists()


def test_version_2_leaves_a_group_that_others_share_and_moves_nobody_out_of_it(version_2, start):
    """Only a server that is alone steps aside. A place that was left in that way serves the next server too."""

    def serve(where):
        server = start(SERVES)
        (where / "cgroup.procs").write_text(str(server.pid))
        go(server)
        return server, server.stdout.readline().strip()

    with version_2.group("run-place", Limits()) as group:
        place, leaf = Path(group.paths["pids"]), Path(group.paths["pids"]) / "gloveport-server"
        shell = start("")
        group.attach(shell.pid)
        refused, answer = serve(place)
        assert f"holds other processes than Gloveport: {shell.pid};" in answer
        assert [path for path in place.iterdir() if path.is_dir()] == []
        for process in (refused, shell):
            process.kill()
            process.wait()
        first, directory = serve(place)
        assert Path(directory).parent == place
        assert (leaf / "cgroup.procs").read_text().split() == [str(first.pid)]
        _, directory = serve(leaf)
        assert Path(directory).parent == place


def stand_in(root, files):
    """Directories and files as a kernel shows them."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def detect_in(tmp_path, membership):
    (tmp_path / "own").write_text(membership)
    return detect(tmp_path / "fs", own=tmp_path / "own")


@pytest.mark.parametrize(
    ("prefix", "path", "place"),
    [
        ("", "/app.slice/run-1.scope", "app.slice/run-1.scope"),
        ("", "/", "."),
        ("unified/", "/run-1.scope", "unified/run-1.scope"),
        # The leaf of a server that stepped aside, from which the shell of another, or a test, starts the next one.
        ("", "/run-1.scope/gloveport-server", "run-1.scope"),
        # A unit that only happens to be called like us: the group above it is not ours.
        ("", "/system.slice/gloveport-server.service", "system.slice/gloveport-server.service"),
        ("", "/system.slice/gloveport-1-2-3-4.service", "system.slice/gloveport-1-2-3-4.service"),
    ],
)
def test_version_2_is_looked_for_in_our_own_group(tmp_path, prefix, path, place):
    root = tmp_path / "fs"
    stand_in(root, {f"{prefix}cgroup.controllers": "cpu", f"{place}/cgroup.controllers": "cpuset cpu io memory pids"})
    (root / prefix / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    tree = detect_in(tmp_path, f"0::{path}\n")
    assert tree.version == 2
    (directory,) = places(tree)
    assert directory.parent == root / place
    assert (directory / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (directory.parent / "cgroup.subtree_control").read_text() == "+memory +pids +cpu +io"


def test_a_group_without_every_controller_is_refused_and_they_are_named(tmp_path):
    """E4: half of the limits would be none."""
    stand_in(tmp_path / "fs", {"cgroup.controllers": "cpu", "a.scope/cgroup.controllers": "memory io"})
    with pytest.raises(
        SandboxError, match=r"version 2: .*a\.scope lacks the controllers pids, cpu; .*not mounted"
    ) as e:
        detect_in(tmp_path, "0::/a.scope\n")
    assert f"systemd-run {'--scope' if os.geteuid() == 0 else '--user'}" in e.value.hint
    assert list((tmp_path / "fs/a.scope").iterdir()) == [tmp_path / "fs/a.scope/cgroup.controllers"]


@pytest.mark.parametrize("unified", ["", "0::/\n"])
def test_version_1_with_two_controllers_in_one_directory(tmp_path, unified):
    root = tmp_path / "fs"
    for place in ("memory/a", "pids/a", "cpu,cpuacct/a"):
        (root / place).mkdir(parents=True)
    for link in ("cpu", "cpuacct"):
        (root / link).symlink_to("cpu,cpuacct")
    tree = detect_in(tmp_path, f"4:memory:/a\n3:pids:/a\n2:cpu,cpuacct:/a\n1:name=systemd:/a\n{unified}")
    assert tree.version == 1
    assert tree.directories["cpu"] == tree.directories["cpuacct"]
    assert {directory.parent for directory in places(tree)} == {
        root / f"{c}/a" for c in ("memory", "pids", "cpu,cpuacct")
    }
    assert all(directory.is_dir() for directory in places(tree))


def test_version_1_makes_all_directories_or_none(tmp_path):
    root = tmp_path / "fs"
    for place in ("memory", "pids", "cpu"):
        (root / place).mkdir(parents=True)
    with pytest.raises(SandboxError, match=r"version 2: it is not mounted; version 1: .*No such file") as e:
        detect_in(tmp_path, "4:memory:/\n3:pids:/\n2:cpu:/\n1:cpuacct:/a\n")
    assert "as root" in e.value.hint
    assert list(root.rglob("gloveport-*")) == []


@pytest.mark.parametrize(
    ("mark", "refused"),
    # Only root may mark a group, and only root can use version 1.
    [(None, True), (b"0", True), (b"1", False)] if os.geteuid() == 0 else [(None, True)],
)
@pytest.mark.parametrize(("place", "line"), [("systemd", "1:name=systemd:/a.service"), ("unified", "0::/a.service")])
def test_version_1_needs_a_unit_that_systemd_leaves_alone(tmp_path, place, line, mark, refused):
    """E4: systemd moved sandboxes out of their groups when the unit of a server that runs as root was changed."""
    root = tmp_path / "fs"
    for directory in ("memory/a.service", "pids/a.service", "cpu", "cpuacct", f"{place}/a.service"):
        (root / directory).mkdir(parents=True)
    if mark is not None:
        os.setxattr(root / place / "a.service", "trusted.delegate", mark)
    with pytest.raises(SandboxError, match="has not delegated") if refused else contextlib.nullcontext():
        detect_in(tmp_path, f"5:memory:/a.service\n4:pids:/a.service\n3:cpu:/\n2:cpuacct:/\n{line}\n")
    assert any(root.rglob("gloveport-*")) != refused


def step_aside_with(tmp_path, pids, front=None):
    """Who is moved into the leaf of a group that these live in."""
    (tmp_path / "gloveport-server").mkdir()
    leaf = tmp_path / "gloveport-server/cgroup.procs"
    os.mkfifo(leaf)
    stand_in(tmp_path, {"cgroup.procs": "".join(f"{pid}\n" for pid in pids)})
    reader = os.open(leaf, os.O_RDWR | os.O_NONBLOCK)
    try:
        step_aside(tmp_path, front)
    finally:
        with contextlib.suppress(BlockingIOError):
            moved = os.read(reader, 4096).decode()
        os.close(reader)
    return moved


def test_the_front_and_the_children_of_a_server_step_aside_with_it(tmp_path, start):
    """``gloveport exec`` has its first process and its reaper in the group before it looks for one."""
    ours = sorted([os.getpid(), os.getppid(), start("").pid])
    assert step_aside_with(tmp_path, ours, front=os.getppid()) == "".join(map(str, ours))


@pytest.mark.parametrize("whose", ["parent", "grandchild", "other pid namespace", "front of another"])
def test_nobody_else_steps_aside(tmp_path, start, whose):
    other, front = os.getppid(), None
    if whose == "other pid namespace":
        other = 0
    elif whose == "front of another":
        other = front = 1
    elif whose == "grandchild":
        child = start("import subprocess; print(subprocess.Popen(['cat']).pid); input()")
        go(child)
        other = int(child.stdout.readline())
    with pytest.raises(SandboxError, match=rf"holds other processes than Gloveport: {other}$"):
        step_aside_with(tmp_path, [os.getpid(), other], front)


def test_what_does_not_end_is_waited_for_no_longer_than_told(tree, start):
    """One that a debugger holds at its end, in what a dead server had left, made every start take nine seconds."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = start("")
    with tree.group("run-held", Limits()) as group:
        inner = {Path(path) / "inner" for path in group.paths.values()}
        for directory in inner:
            directory.mkdir()
            (directory / "cgroup.procs").write_text(str(child.pid))
        assert libc.ptrace(PTRACE_SEIZE, child.pid, None, ctypes.c_void_p(PTRACE_O_TRACEEXIT)) == 0
        child.kill()
        os.waitpid(child.pid, 0)  # it is held, not dead
        began = time.monotonic()
        for directory in inner:
            with pytest.raises(SandboxError, match="can't be removed"):
                remove(directory, began)
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert libc.ptrace(PTRACE_CONT, child.pid, None, None) == 0
        assert child.wait() == -signal.SIGKILL
        for directory in inner:
            remove(directory)
