"""What a server holds of the host while it does nothing: counted before and after, seen from outside."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.processes import below, namespace_of, pss_bytes, rss_bytes

_PROC = Path("/proc")
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_MIB = 1 << 20

MEMORY: Final = ("RSS of the server, MiB", "PSS of all of it, MiB")
"""What may grow a little."""


def count(scratch: Path) -> Mapping[str, float]:
    """What this process, which is the server, and those below it hold now.

    Args:
        scratch: Where the server keeps all its files, its audit log in ``state/audit``.
    """
    me = os.getpid()
    return {
        **count_objects(me),
        "files": sum(not path.is_relative_to(scratch / "state/audit") for path in scratch.rglob("*")),
        "RSS of the server, MiB": rss_bytes(me) / _MIB,
        "PSS of all of it, MiB": pss_bytes([me, *below(me)]) / _MIB,
    }


def count_objects(server: int) -> Mapping[str, float]:
    """What of the kernel's a server and the processes below it hold now."""
    children = below(server)
    pids = [server, *children]
    return {
        "processes": len(children),
        "descriptors": sum(_entries(_PROC / str(pid) / "fd") for pid in pids),
        "namespaces": len({(kind, namespace_of(pid, kind)) for pid in pids for kind in _NAMESPACES}),
        "cgroups": _cgroups(server),
        "mounts": _mounts(pids),
    }


def _cgroups(server: int) -> int:
    """Directories of this server, in all hierarchies; they carry its number (``sandbox/cgroups/delegation.py``)."""
    name = f"gloveport-{namespace_of(server, 'pid')}-{server}-"
    return sum(f"/{name}" in directory for directory, _, _ in os.walk("/sys/fs/cgroup"))


def _mounts(pids: list[int]) -> int:
    """Mounts in all mount namespaces of these processes, each namespace once."""
    one_of_each = {namespace_of(pid, "mnt"): pid for pid in pids}
    mounts = 0
    for pid in one_of_each.values():
        with contextlib.suppress(OSError):
            mounts += len((_PROC / str(pid) / "mountinfo").read_text().splitlines())
    return mounts


def _entries(directory: Path) -> int:
    """How many there are; 0 when they can't be seen: an ordinary user can't look into every process."""
    try:
        return len(list(directory.iterdir()))
    except OSError:
        return 0
