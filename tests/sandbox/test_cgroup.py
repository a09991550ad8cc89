"""E4, E5: groups on this kernel, whichever version it has."""

import os
import select
import signal
from pathlib import Path

import pytest

from gloveport.errors import SandboxError
from gloveport.model import Limits
from gloveport.sandbox.cgroups import cgroup

MIB = 1 << 20


def go(child):
    print(file=child.stdin, flush=True)


def run_in(group, child):
    group.attach(child.pid)
    go(child)
    return child.wait(30)


def test_every_limit_stands_in_the_kernels_own_files(tree):
    """E4."""
    limits = Limits(memory_bytes=64 * MIB, processes=9, cpus=0.5)
    with tree.group("run-limits", limits) as group:
        places = {path: group.paths[path.partition(".")[0]] for path in FILES[tree.version]}
        read = {path: Path(place, path).read_text().split() for path, place in places.items()}
    assert read == FILES[tree.version]


FILES = {
    1: {
        "memory.limit_in_bytes": [str(64 * MIB)],
        "memory.memsw.limit_in_bytes": [str(64 * MIB)],
        "memory.kmem.tcp.limit_in_bytes": [str(64 * MIB)],
        "pids.max": ["9"],
        "cpu.cfs_quota_us": ["50000"],
        "cpu.cfs_period_us": ["100000"],
    },
    2: {
        "memory.max": [str(64 * MIB)],
        "memory.swap.max": ["0"],
        "memory.oom.group": ["1"],
        "pids.max": ["9"],
        "cpu.max": ["50000", "100000"],
    },
}


def test_processor_time_and_the_most_memory_are_counted(tree, start):
    work = "import time\nhoard = bytes(32 << 20)\nhoard = hoard[:-1]\nwhile time.process_time() < 0.3: pass"
    with tree.group("run-account", Limits()) as group:
        assert group.counters().cpu_seconds < 0.1
        assert run_in(group, start(work)) == 0
        counters = group.counters()
    assert 0.1 < counters.cpu_seconds < 5
    assert 32 * MIB <= counters.peak_memory_bytes <= 128 * MIB
    assert (counters.oom_kills, counters.refused_forks) == (0, 0)


def test_a_refused_process_is_counted(tree, start):
    code = (
        "import os, sys, time\ntry:\n  while os.fork(): pass\n  time.sleep(1000)\nexcept BlockingIOError: sys.exit(11)"
    )
    with tree.group("run-forks", Limits(processes=8)) as group:
        assert run_in(group, start(code)) == 11
        assert group.counters().refused_forks == 1


def test_memory_beyond_the_limit_kills_and_is_counted(tree, start):
    with tree.group("run-memory", Limits(memory_bytes=32 * MIB)) as group:
        assert run_in(group, start("bytearray(64 << 20)")) == -signal.SIGKILL
        assert group.counters().oom_kills >= 1  # version 2 kills the group as one, and counts its first victim twice


def test_leaving_a_group_kills_what_lives_in_it_and_removes_it(tree, start):
    """E5: also what its first process has started since."""
    child = start("import os, time\nbelow = os.fork()\nif below: print(below, flush=True)\ntime.sleep(1000)")
    with tree.group("run-stragglers", Limits()) as group:
        group.attach(child.pid)
        go(child)
        descriptor = os.pidfd_open(int(child.stdout.readline()))
    assert child.wait() == -signal.SIGKILL
    assert select.select([descriptor], [], [], 30)[0]  # readable: dead
    os.close(descriptor)
    assert not any(Path(path).exists() for name, path in group.paths.items() if name != cgroup.DISKS)
    assert all(file.closed for file in group.accounts.values())


def test_a_group_that_somebody_else_removed_is_an_error_of_this_host_and_no_crash(tree):
    with tree.group("run-gone", Limits()) as group:
        for path in set(group.paths.values()):
            Path(path).rmdir()
        with pytest.raises(SandboxError, match="cgroup accounts"):
            group.counters()


def test_a_name_that_is_taken_is_refused_and_its_owner_keeps_the_group(tree):
    with tree.group("run-twice", Limits()) as group:
        with pytest.raises(SandboxError, match=r"cgroup run-twice: .*File exists"), tree.group("run-twice", Limits()):
            pass
        assert group.counters().oom_kills == 0


def test_closing_removes_the_servers_directories_with_all_their_groups(tree, start):
    """E5."""
    child = start("")
    with tree.group("run-left", Limits()) as group:
        group.attach(child.pid)
        tree.close()
        assert child.wait() == -signal.SIGKILL
        assert not any(path.exists() for path in tree.directories.values())


def test_version_2_before_linux_5_19_keeps_no_peak_and_all_else_must_be_there(tmp_path):
    """On stand-in files, as a kernel writes them."""
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n")
    (tmp_path / "pids.events").write_text("max 5\n")
    paths = dict.fromkeys(cgroup.CONTROLLERS, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"cpu\.stat"), cgroup._open_accounts(cgroup._ACCOUNTS[2], paths):
        pass
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n")
    with cgroup._open_accounts(cgroup._ACCOUNTS[2], paths) as accounts:
        counters = cgroup.Cgroup(version=2, paths=paths, accounts=accounts).counters()
    assert counters == cgroup.Counters(oom_kills=2, refused_forks=5, cpu_seconds=1.5, peak_memory_bytes=None)
