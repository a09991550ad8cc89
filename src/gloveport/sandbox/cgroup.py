"""Cgroups: limits and accounts of a whole sandbox, over version 2 as delegated or version 1 as found.

A ``Tree`` is the place below which this process may make groups; ``detect`` finds it or says why there is none. Each
server owns one directory there, named after its process, with one group per sandbox in it. Groups of servers that died
are removed by the next one.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gloveport.errors import SandboxError
from gloveport.model import Limits

_PREFIX = "gloveport-"
_PERIOD_MICROSECONDS = 100_000
_REMOVAL_SECONDS = 2.0
CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernel counted for one group since it was made."""

    oom_kills: int
    refused_forks: int
    cpu_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Where groups are made: one directory per controller (version 1), or one for all (version 2)."""

    version: Literal[1, 2]
    directories: Mapping[str, Path]
    """Controller → directory of this server. Version 1 has ``cpuacct`` as a further one."""

    @contextlib.contextmanager
    def group(self, name: str, limits: Limits) -> Iterator["Group"]:
        """A group with these limits; on leaving, whatever still lives in it is killed and the group removed."""
        paths = {controller: directory / name for controller, directory in self.directories.items()}
        made: list[Path] = []
        try:
            for path in dict.fromkeys(paths.values()):
                path.mkdir()
                made.append(path)
            group = Group(version=self.version, paths=paths)
            group.limit(limits)
            yield group
        except OSError as error:
            raise SandboxError(
                f"cgroup {name}: {error}", hint="`gloveport doctor` says what this host allows"
            ) from error
        finally:
            for path in made:
                _empty_and_remove(path)

    def close(self) -> None:
        """Remove this server's directories."""
        for directory in dict.fromkeys(self.directories.values()):
            _empty_and_remove(directory)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The group of one sandbox."""

    version: Literal[1, 2]
    paths: Mapping[str, Path]

    def limit(self, limits: Limits) -> None:
        """Write the limits. Swap is closed: it would be memory beyond the limit."""
        quota = max(1000, int(limits.cpus * _PERIOD_MICROSECONDS))
        memory, pids, cpu = (self.paths[name] for name in CONTROLLERS)
        _write(pids / "pids.max", limits.processes)
        if self.version == 2:
            _write(memory / "memory.max", int(limits.memory_bytes))
            _write_where_present(memory / "memory.swap.max", 0)
            _write(memory / "memory.oom.group", 1)
            _write(cpu / "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        else:
            _write(memory / "memory.limit_in_bytes", int(limits.memory_bytes))
            _write_where_present(memory / "memory.memsw.limit_in_bytes", int(limits.memory_bytes))
            # Version 1 counts the buffers of sockets apart. Unbounded, one sandbox uses up the TCP memory of the host.
            _write_where_present(memory / "memory.kmem.tcp.limit_in_bytes", int(limits.memory_bytes))
            _write(cpu / "cpu.cfs_period_us", _PERIOD_MICROSECONDS)
            _write(cpu / "cpu.cfs_quota_us", quota)

    def attach(self, pid: int) -> None:
        """Move a process in; what it forks from now on is born inside."""
        for path in dict.fromkeys(self.paths.values()):
            _write(path / "cgroup.procs", pid)

    def counters(self) -> Counters:
        """Read the accounts."""
        pids = _fields(self.paths["pids"] / "pids.events")
        if self.version == 2:
            memory = self.paths["memory"]
            peak = memory / "memory.peak"  # Linux 5.19
            return Counters(
                oom_kills=_fields(memory / "memory.events")["oom_kill"],
                refused_forks=pids["max"],
                cpu_seconds=_fields(self.paths["cpu"] / "cpu.stat")["usage_usec"] / 1e6,
                peak_memory_bytes=int((peak if peak.exists() else memory / "memory.current").read_text()),
            )
        return Counters(
            oom_kills=_fields(self.paths["memory"] / "memory.oom_control")["oom_kill"],
            refused_forks=pids["max"],
            cpu_seconds=int((self.paths["cpuacct"] / "cpuacct.usage").read_text()) / 1e9,
            peak_memory_bytes=int((self.paths["memory"] / "memory.max_usage_in_bytes").read_text()),
        )


def detect(root: Path = Path("/sys/fs/cgroup"), *, own: Path = Path("/proc/self/cgroup")) -> Tree:
    """Find where this process may make groups with memory, pids and cpu limits, and make this server's directory there.

    Raises:
        SandboxError: There is no such place; the message says why and the hint what to do.
    """
    memberships = _memberships(own.read_text())
    failures: list[str] = []
    for attempt in (_version_2, _version_1):
        try:
            return attempt(root, memberships)
        except (OSError, SandboxError) as error:
            failures.append(f"{attempt.__name__.removeprefix('_').replace('_', ' ')}: {error}")
    raise SandboxError(
        "no cgroup in which memory, processes and processor time can be limited: " + "; ".join(failures),
        hint="start Gloveport with `systemd-run --user --scope -p Delegate=yes gloveport serve`, or as root",
    )


def _version_2(root: Path, memberships: Mapping[str, str]) -> Tree:
    """Use the group we are in when it was delegated to us, moving ourselves into a leaf of it: a group with processes
    of its own can't hand controllers on to children.
    """
    mounted = root if (root / "cgroup.controllers").exists() else root / "unified"
    base = mounted / memberships[""].lstrip("/")
    available = (base / "cgroup.controllers").read_text().split()
    if missing := [name for name in CONTROLLERS if name not in available]:
        raise SandboxError(f"{base} lacks the controllers {', '.join(missing)}")
    if base.name.startswith(_PREFIX):  # an earlier server of this process tree has moved us into a leaf already
        base = base.parent
    _sweep(base)
    directory = base / _own_name()
    directory.mkdir()
    try:
        leaf = directory / f"{_PREFIX}server"
        leaf.mkdir()
        for pid in (base / "cgroup.procs").read_text().split():
            _write(leaf / "cgroup.procs", pid)
        for place in (base, directory):
            _write(place / "cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))
    except OSError:
        with contextlib.suppress(OSError):
            (directory / f"{_PREFIX}server").rmdir()
            directory.rmdir()
        raise
    return Tree(version=2, directories=dict.fromkeys(CONTROLLERS, directory))


def _version_1(root: Path, memberships: Mapping[str, str]) -> Tree:
    directories: dict[str, Path] = {}
    for controller in (*CONTROLLERS, "cpuacct"):
        if controller not in memberships:
            raise SandboxError(f"the controller {controller} is not mounted")
        base = root / controller / memberships[controller].lstrip("/")
        _sweep(base)
        directories[controller] = base / _own_name()
    made: list[Path] = []
    try:
        for directory in dict.fromkeys(path.resolve() for path in directories.values()):
            directory.mkdir()
            made.append(directory)
    except OSError:
        for directory in made:
            directory.rmdir()
        raise
    return Tree(version=1, directories=directories)


def _memberships(text: str) -> dict[str, str]:
    """Controller → path of our group, from /proc/self/cgroup; version 2 stands under the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _own_name() -> str:
    """Unique per server: a process id alone comes back after a while."""
    return f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{os.urandom(4).hex()}"


def _start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, or nothing when it is gone."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _sweep(base: Path) -> None:
    """Remove the directories of servers that died without tidying up. Their sandboxes died with them, so these are
    empty; one that is not belongs to somebody alive whose process this process can't see, and stays.
    """
    for directory in base.glob(f"{_PREFIX}*-*-*"):
        pid, started = directory.name.removeprefix(_PREFIX).split("-")[:2]
        if pid.isdigit() and _start_time(int(pid)) != started:
            for below in [*(path for path in directory.iterdir() if path.is_dir()), directory]:
                with contextlib.suppress(OSError):
                    below.rmdir()


def _empty_and_remove(directory: Path) -> None:
    """Kill what still lives in a group of ours and remove it.

    Raises:
        SandboxError: It does not become empty: a process hangs in the kernel.
    """
    for child in [path for path in directory.iterdir() if path.is_dir()]:
        _empty_and_remove(child)
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        for pid in (directory / "cgroup.procs").read_text().split():
            if int(pid) != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            directory.rmdir()
        except OSError as error:
            # A killed process leaves its group when the kernel has torn it down: soon, but not at once.
            if time.monotonic() > deadline:
                raise SandboxError(f"{directory} can't be removed: {error.strerror}") from error
            os.sched_yield()
        else:
            return


def _write(path: Path, value: object) -> None:
    path.write_text(str(value))


def _write_where_present(path: Path, value: object) -> None:
    """Kernels built without swap accounting have no such file, and no swap to account for."""
    if path.exists():
        _write(path, value)


def _fields(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}
