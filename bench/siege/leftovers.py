"""What there is of the kernel's objects, of this server's and on the whole host, and what is more than it was.

Others use the host too, so each of its counts may grow by an amount that is small against what an attack takes.
"""

import contextlib
import ctypes
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.processes import below
from bench.soak.traces import count_objects

_MIB: Final = 1 << 20
_PR_SET_CHILD_SUBREAPER: Final = 36
_UID_LOCKS: Final = Path("/run/gloveport.uids")
_SHOWN: Final = 4

_OF_THE_SERVER: Final[Mapping[str, float]] = {
    # What waits for programs is exchanged now and then, and is twice there for a moment.
    "processes": 16,
    "descriptors": 200,
    "namespaces": 24,
    "cgroups": 8,
    "mounts": 200,
    "uids": 2,
    "orphans": 0,
}
_OF_THE_HOST: Final[Mapping[str, float]] = {
    "open files": 4000,
    "TCP sockets": 300,
    "TCP orphans": 100,
    "TCP memory, MiB": 32,
    "UDP memory, MiB": 32,
    "terminals": 16,
    "memory groups": 300,
    "network namespaces": 200,
    "slab that stays, MiB": 96,
    "slab, MiB": 192,
    "memory in use, MiB": 1024,
    "kernel messages": 2000,
}
"""By how much each may be more than before. What can't be counted here is not there."""

ON_THE_HOST: Final = "left on the host:"
"""How a fault begins that may be of others who use it."""


def adopt_orphans() -> None:
    """Become the parent of whatever loses its own: what a server leaves is then our child."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("PR_SET_CHILD_SUBREAPER")


def count(server: int, ours: Collection[int], uids: range) -> Mapping[str, float]:
    """All of it, now.

    Args:
        server: The process of the server.
        ours: Our children that are no orphans of it.
        uids: Those that its sandboxes get.
    """
    return {
        **count_objects(server),
        "orphans": sum(1 for _ in orphans({server, *ours})),
        **({"uids": _leased(uids)} if os.geteuid() == 0 else {}),
        **_of_the_host(),
    }


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """What has become more than it may, in words."""
    return [
        f"{where} {name} {value:+.0f}"
        for where, counts in (("left of the server:", _OF_THE_SERVER), (ON_THE_HOST, _OF_THE_HOST))
        for name, allowed in counts.items()
        if name in before and name in after and (value := after[name] - before[name]) > allowed
    ]


def orphans(known: Collection[int]) -> Iterator[int]:
    """Our living children but these; the dead ones among them are buried."""
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            _, _, fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")
            state, parent = fields.split()[:2]
            if int(parent) == os.getpid() and pid not in known:
                if state == "Z":
                    os.waitpid(pid, os.WNOHANG)
                else:
                    yield pid


def grown_caches(before: Mapping[str, int]) -> str:
    """Which of the kernel's caches of objects have grown most, for whoever looks for the cause."""
    more = {name: number - before.get(name, 0) for name, number in caches().items()}
    most = sorted(more, key=lambda name: -more[name])[:_SHOWN]
    return ", ".join(f"{name} {more[name] / _MIB:+.0f} MiB" for name in most if more[name] > _MIB)


def caches() -> Mapping[str, int]:
    """Bytes in each of the kernel's caches of objects; root alone is told."""
    try:
        lines = Path("/proc/slabinfo").read_text().splitlines()[2:]
    except OSError:
        return {}
    return {line.split()[0]: int(line.split()[2]) * int(line.split()[3]) for line in lines}


def _of_the_host() -> Mapping[str, float]:
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    mib = {name: int(text.split()[0]) / 1024 for name, text in memory.items()}
    page_mib = os.sysconf("SC_PAGE_SIZE") / _MIB
    sockets = _sockets()
    counts = {
        "open files": float(Path("/proc/sys/fs/file-nr").read_text().split()[0]),
        "TCP sockets": sockets["TCP", "alloc"],
        "TCP orphans": sockets["TCP", "orphan"],
        "TCP memory, MiB": sockets["TCP", "mem"] * page_mib,
        "UDP memory, MiB": sockets["UDP", "mem"] * page_mib,
        "terminals": float(Path("/proc/sys/kernel/pty/nr").read_text()),
        "slab that stays, MiB": mib["SUnreclaim"],
        "slab, MiB": mib["Slab"],
        "memory in use, MiB": mib["MemTotal"] - mib["MemAvailable"],
    }
    for line in Path("/proc/cgroups").read_text().splitlines():
        if line.startswith("memory\t"):
            counts["memory groups"] = float(line.split()[2])
    with contextlib.suppress(OSError):
        for line in Path("/proc/slabinfo").read_text().splitlines():
            if line.startswith("net_namespace "):
                counts["network namespaces"] = float(line.split()[1])
    with contextlib.suppress(OSError), Path("/dev/kmsg").open("rb", buffering=0) as messages:
        counts["kernel messages"] = _last_message(messages.fileno())
    return counts


def _last_message(descriptor: int) -> float:
    """The number of the kernel's newest message; 0 when there is none any more."""
    number = 0.0
    os.set_blocking(descriptor, False)
    while True:
        try:
            number = float(os.read(descriptor, 8192).split(b",")[1])
        except BlockingIOError:
            return number
        except BrokenPipeError:  # overwritten meanwhile: go on with the oldest that is left
            continue


def _sockets() -> Mapping[tuple[str, str], float]:
    found = {}
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        kind, _, rest = line.partition(": ")
        words = rest.split()
        found |= {(kind, name): float(number) for name, number in zip(words[::2], words[1::2], strict=True)}
    return found


def _leased(uids: range) -> float:
    """How many of a server's uids are leased: each is a locked byte of one file (``sandbox/launch/uid_lease.py``)."""
    try:
        inode = _UID_LOCKS.stat().st_ino
    except OSError:
        return 0
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return sum(lock[-3].endswith(f":{inode}") and int(lock[-2]) in uids for lock in locks if "->" not in lock)
