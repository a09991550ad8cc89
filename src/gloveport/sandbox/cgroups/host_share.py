"""Limits the total use of the host by all sandboxes of one server: memory, and reads from disks."""

import contextlib
import os
from pathlib import Path

from gloveport.errors import SandboxError
from gloveport.sandbox.cgroups.cgroup import DISKS, CgroupTree, write_where_present

_OPERATION_BYTES = 64 * 1024
_NO_DISKS = ("loop", "ram", "zram")  # memory, and files on the others


def limit_share(tree: CgroupTree, *, memory_share: float, read_bytes: int) -> None:
    """Bound the total use of all sandboxes. Writes to disks are not bounded: a process that is throttled while it
    writes may hold up the file system's journal, and with it everybody who writes to the same disk. ``memory_share`` is
    of the host's memory, or of the parent groups' limit if that is less; ``read_bytes`` are those a second from each
    disk.

    Raises:
        SandboxError: The kernel refuses it.
    """
    try:
        _limit_memory(tree, int(memory_share * _available_bytes(tree)))
        for disk in read_disks():
            _limit_disk(tree, disk, read_bytes)
    except OSError as error:
        raise SandboxError(f"the cgroup of all sandboxes: {error}") from error


def can_limit_disks(tree: CgroupTree) -> bool:
    """Whether there is a controller that bounds reads from disks."""
    return DISKS in tree.directories or (tree.directories["memory"] / "io.max").exists()


def read_disks(blocks: Path = Path("/sys/block")) -> list[str]:
    """Major and minor numbers of this host's disks; a partition counts as its disk."""
    devices = [device for device in blocks.glob("*/dev") if not device.parent.name.startswith(_NO_DISKS)]
    return [device.read_text().strip() for device in devices]


def _limit_memory(tree: CgroupTree, most: int) -> None:
    memory = tree.directories["memory"]
    if tree.version == 2:
        write_where_present(memory / "memory.max", most)
        return
    write_where_present(memory / "memory.use_hierarchy", "1")  # before Linux 5.11 child groups did not count
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"):
        write_where_present(memory / name, most)


def _limit_disk(tree: CgroupTree, disk: str, read_bytes: int) -> None:
    operations = read_bytes // _OPERATION_BYTES
    if tree.version == 2:
        write_where_present(tree.directories["memory"] / "io.max", f"{disk} rbps={read_bytes} riops={operations}")
    elif DISKS in tree.directories:
        for name, most in (("bps", read_bytes), ("iops", operations)):
            write_where_present(tree.directories[DISKS] / f"blkio.throttle.read_{name}_device", f"{disk} {most}")


def _available_bytes(tree: CgroupTree) -> int:
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    name = "memory.max" if tree.version == 2 else "memory.limit_in_bytes"
    for directory in tree.directories["memory"].parents:
        with contextlib.suppress(OSError, ValueError):  # above the root of the groups, or no limit
            found.append(int((directory / name).read_text()))
    return min(found)
