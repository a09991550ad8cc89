"""E4, P8: all sandboxes of a server together leave the host its memory and its disks."""

import os
import signal
import time
from pathlib import Path

import pytest

from gloveport.model import Limits
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.host_share import can_limit_disks, limit_share, read_disks

MIB = 1 << 20
HOST_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
HOARD = "hoard = bytearray(48 << 20)\nprint('has it', flush=True)\nsys.stdin.readline()"


def test_sandboxes_that_are_each_within_their_limit_are_bounded_together(tree, start):
    """T5: the knob ``memory_share``. The largest is ended, and which it was is in its own group's accounts."""
    limit_share(tree, memory_share=80 * MIB / HOST_BYTES, read_bytes=64 * MIB)
    limits = Limits(memory_bytes=64 * MIB)
    with tree.group("run-one", limits) as one, tree.group("run-two", limits) as two:
        children = [start(HOARD), start(HOARD)]
        for group, child in zip((one, two), children, strict=True):
            group.attach(child.pid)
            print(file=child.stdin, flush=True)
            child.stdout.readline()
        kills = [group.counters().oom_kills for group in (one, two)]
        ended = [child.poll() for child in children]
    assert sorted(map(bool, kills)) == [False, True]
    assert [code for code, kill in zip(ended, kills, strict=True) if kill] in ([-signal.SIGKILL], [None])


def test_reads_from_disks_take_their_time(tree, start, tmp_path):
    """T5: the knob ``disk_bytes``. Of what lies in no disk, such as a tmpfs, nothing is bounded."""
    file = tmp_path / "cold"
    file.write_bytes(os.urandom(4 * MIB))
    if not can_limit_disks(tree) or not os.major(file.stat().st_dev):
        return
    limit_share(tree, memory_share=0.5, read_bytes=2 * MIB)
    with tree.group("run-reads", Limits()) as group:
        child = start(f"print(len(open({str(file)!r}, 'rb', 0).read()))")
        group.attach(child.pid)
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        began = time.monotonic()
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == f"{4 * MIB}\n"
        assert time.monotonic() - began > 1


@pytest.mark.parametrize("available", ["max", str(1 << 30)])
def test_version_2_is_bounded_in_the_servers_own_group(tmp_path, available):
    """On stand-in files, as a kernel has them."""
    directory = tmp_path / "gloveport"
    directory.mkdir()
    for name in ("memory.max", "io.max"):
        (directory / name).touch()
    (tmp_path / "memory.max").write_text(f"{available}\n")
    tree = cgroup.CgroupTree(version=2, directories=dict.fromkeys(cgroup.CONTROLLERS, directory))
    limit_share(tree, memory_share=0.5, read_bytes=64 * MIB)
    assert int((directory / "memory.max").read_text()) == (HOST_BYTES if available == "max" else 1 << 30) // 2
    assert can_limit_disks(tree)
    if disks := read_disks():
        assert (directory / "io.max").read_text() == f"{disks[-1]} rbps={64 * MIB} riops=1024"


def test_without_a_controller_of_disks_memory_is_bounded_all_the_same(tmp_path):
    (tmp_path / "memory.max").touch()
    tree = cgroup.CgroupTree(version=2, directories=dict.fromkeys(cgroup.CONTROLLERS, tmp_path))
    limit_share(tree, memory_share=1, read_bytes=64 * MIB)
    assert int((tmp_path / "memory.max").read_text()) == HOST_BYTES
    assert not can_limit_disks(tree)


def test_disks_are_told_from_memory(tmp_path):
    for name, number in (("sda", "8:0"), ("loop0", "7:0"), ("zram0", "253:0"), ("dm-0", "252:0")):
        (tmp_path / name).mkdir()
        Path(tmp_path, name, "dev").write_text(f"{number}\n")
    assert sorted(read_disks(tmp_path)) == ["252:0", "8:0"]
