"""What the kernel says of a process and of those below it: memory, processor time, namespaces. Read from /proc."""

import contextlib
import ctypes
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import anyio

_PROC = Path("/proc")
_SYS_KCMP, _KCMP_VM = {"x86_64": 312, "aarch64": 272}, 1
_libc = ctypes.CDLL(None)
_MOMENT_SECONDS = 0.03  # longer than anything waits for a good moment: to fill up a stock, or to rehearse
_GLANCE_NANOSECONDS = 200_000  # a thread of the server looks twenty times a second whether a file was changed
_PATIENCE_SECONDS = 20.0


def below(root: int) -> list[int]:
    """All descendants of a process, zombies included."""
    children = _children()
    found: list[int] = []
    to_visit = [root]
    while to_visit:
        offspring = children[to_visit.pop()]
        found += offspring
        to_visit += offspring
    return found


def rss_bytes(pid: int) -> int:
    """Resident memory of a process: every page that it has mapped, also those that others have mapped too."""
    return _field(_PROC / str(pid) / "status", "VmRSS:")


def peak_rss_bytes(pid: int) -> int:
    """The most resident memory that a process has had since ``forget_peak``. The kernel keeps it: nothing is missed."""
    return _field(_PROC / str(pid) / "status", "VmHWM:")


def forget_peak(pid: int) -> None:
    """Let the peak of a process be what it holds now."""
    (_PROC / str(pid) / "clear_refs").write_text("5")


def pss_bytes(pids: Iterable[int]) -> int:
    """Proportional memory of processes: a page that n processes have mapped counts 1/n in each of them.

    So does the whole memory of a process that shares it with its parent, its siblings or its children, as keepers do:
    the kernel would count it in each.
    """
    children, total = _children(), 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            parent = _parent(_PROC / str(pid))
            sharing = sum(_same_memory(pid, other) for other in {parent, *children[parent], *children[pid]})
            total += _field(_PROC / str(pid) / "smaps_rollup", "Pss:") / max(1, sharing)
    return round(total)


def sandboxes(server: int) -> list[list[int]]:
    """The processes of each sandbox below a server. The one place that knows how a sandbox is recognised.

    A sandbox has a pid namespace of its own, and none below that: a fork server's namespace has those of the sandboxes
    it forks below it, and so is none. Where no fork server stands between, the process that built it belongs to it too.
    """
    pids = below(server)
    namespace = {pid: inode for pid in (server, *pids) if (inode := namespace_of(pid, "pid")) is not None}
    members: defaultdict[int, list[int]] = defaultdict(list)
    outer = {namespace[server]}
    for pid in pids:
        with contextlib.suppress(OSError, KeyError):
            inside, parents = namespace[pid], namespace[_parent(_PROC / str(pid))]
            members[inside].append(pid)
            if inside != parents:
                outer.add(parents)
                if parents == namespace[server] and (builder := _parent(_PROC / str(pid))) != server:
                    members[inside].append(builder)
    return [pids for inode, pids in members.items() if inode not in outer]


def namespace_of(pid: int, kind: str) -> int | None:
    """The number of a process's namespace; None when the process is dead, or not ours to look at."""
    try:
        return (_PROC / str(pid) / "ns" / kind).stat().st_ino
    except OSError:
        return None


def has_mapped(pids: Iterable[int], file: str) -> bool:
    """Tell whether one of these processes has a file in memory in whose path this stands."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if file in (_PROC / str(pid) / "maps").read_text():
                return True
    return False


async def settled() -> None:
    """Wait until the processes below this one have come to rest: none is born, dies or does anything for a moment.

    Then the last run is cleaned up and what it used up, such as a sandbox made ahead of need, is replaced. Seen from
    outside, so it serves a server of our own as well as one in another process. The one place where samples wait.

    Raises:
        TimeoutError: They never do.
    """
    with anyio.fail_after(_PATIENCE_SECONDS):
        before = _processor_time()
        while True:
            await anyio.sleep(_MOMENT_SECONDS)
            now = _processor_time()
            if now.keys() == before.keys() and all(now[pid] - before[pid] < _GLANCE_NANOSECONDS for pid in now):
                return
            before = now


def _processor_time() -> dict[int, int]:
    """Nanoseconds that each descendant of this process has run."""
    spent = {}
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            spent[pid] = sum(int(task.read_text().split()[0]) for task in _PROC.glob(f"{pid}/task/*/schedstat"))
    return spent


def _children() -> defaultdict[int, list[int]]:
    """The children of each process."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has gone just now
                children[_parent(entry)].append(int(entry.name))
    return children


def _same_memory(one: int, other: int) -> bool:
    """Whether two processes have one memory (``CLONE_VM``), as the kernel tells."""
    return bool(_libc.syscall(_SYS_KCMP[os.uname().machine], one, other, _KCMP_VM, 0, 0) == 0)


def _parent(process: Path) -> int:
    # The name of the program, in parentheses, may hold anything; state and parent follow the last of them.
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _field(path: Path, name: str) -> int:
    """A field of kilobytes, in bytes; 0 where it is missing: a zombie has no memory."""
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0
