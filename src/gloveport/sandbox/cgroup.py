"""Cgroups: limits and accounts of a whole sandbox, over version 2 as delegated or version 1 as found.

A ``Tree`` is the place below which this process may make groups; ``detect`` finds it or says why there is none. Each
server owns one directory there, named after its process, with one group per sandbox in it and nothing else. Groups of
servers that died are removed by the next one.

No process is moved but this one and those of sandboxes, and none is killed but those of sandboxes: whoever shares the
place with us, such as the shell that started us, stays where it is and outlives us.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal

from gloveport.errors import SandboxError
from gloveport.model import Limits

_PREFIX = "gloveport-"
_LEAF = f"{_PREFIX}server"
_PERIOD_MICROSECONDS = 100_000
_PATIENCE_SECONDS = 2.0
_STEP_SECONDS = 0.001
_FILE_BYTES = 4096
CONTROLLERS = ("memory", "pids", "cpu")

BACKGROUND = 1 / 8
"""Share of what is made ahead of need, against a running program's."""

_ALL = " ".join(f"+{name}" for name in CONTROLLERS)


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernel counted for one group since it was made."""

    oom_kills: int
    refused_forks: int
    cpu_seconds: float
    peak_memory_bytes: int | None
    """None where it is not kept: version 2 before Linux 5.19."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Where groups are made: one directory per controller (version 1), or one for all (version 2)."""

    version: Literal[1, 2]
    directories: Mapping[str, Path]
    """Controller → directory of this server. Version 1 has ``cpuacct`` as a further one."""

    @contextlib.contextmanager
    def group(self, name: str, limits: Limits) -> Iterator["Group"]:
        """A group with these limits; on leaving, whatever still lives in it is killed and the group removed.

        Raises:
            SandboxError: It can't be made, or not removed since a process hangs in the kernel.
        """
        with contextlib.ExitStack() as made:
            try:
                paths: dict[str, str] = {}
                for controller, directory in self.directories.items():
                    path = f"{directory}/{name}"
                    if path not in paths.values():  # one directory may serve several controllers
                        os.mkdir(path)  # noqa: PTH102 - on the way of each run: pathlib takes longer than the kernel
                        made.callback(_empty_and_remove, path)
                    paths[controller] = path
                group = Group(version=self.version, paths=paths)
                group.limit(limits)
            except OSError as error:
                raise SandboxError(
                    f"cgroup {name}: {error}", hint="`gloveport doctor` says what this host allows"
                ) from error
            yield group

    def close(self) -> None:
        """Remove this server's directories, and end what still lives in groups of its sandboxes.

        Raises:
            SandboxError: One can't be removed since a process hangs in the kernel.
        """
        with contextlib.ExitStack() as owned:
            for directory in dict.fromkeys(self.directories.values()):
                owned.callback(_empty_and_remove, directory)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The group of one sandbox."""

    version: Literal[1, 2]
    paths: Mapping[str, str]

    def limit(self, limits: Limits) -> None:
        """Write the limits. Swap is closed: it would be memory beyond the limit."""
        quota = max(1000, int(limits.cpus * _PERIOD_MICROSECONDS))
        memory, pids, cpu = (self.paths[name] for name in CONTROLLERS)
        _write(f"{pids}/pids.max", limits.processes)
        if self.version == 2:
            _write(f"{memory}/memory.max", int(limits.memory_bytes))
            _write_where_present(f"{memory}/memory.swap.max", 0)
            _write(f"{memory}/memory.oom.group", 1)
            _write(f"{cpu}/cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        else:
            _write(f"{memory}/memory.limit_in_bytes", int(limits.memory_bytes))
            _write_where_present(f"{memory}/memory.memsw.limit_in_bytes", int(limits.memory_bytes))
            # Version 1 counts the buffers of sockets apart. Unbounded, one sandbox uses up the TCP memory of the host.
            _write_where_present(f"{memory}/memory.kmem.tcp.limit_in_bytes", int(limits.memory_bytes))
            _write(f"{cpu}/cpu.cfs_period_us", _PERIOD_MICROSECONDS)
            _write(f"{cpu}/cpu.cfs_quota_us", quota)

    def lower(self, present: Limits, wanted: Limits) -> None:
        """Write limits that are lower, if any is."""
        names = ("memory_bytes", "processes", "cpus")
        if any(getattr(present, name) != getattr(wanted, name) for name in names):
            self.limit(wanted)

    def weigh(self, weight: float) -> None:
        """Set the share of processor time among sandboxes that compete for it: 1 is that of a running program."""
        if self.version == 2:
            _write(f"{self.paths['cpu']}/cpu.weight", round(100 * weight))
        else:
            _write(f"{self.paths['cpu']}/cpu.shares", round(1024 * weight))

    def attach(self, pid: int) -> None:
        """Move a process in; what it forks from now on is born inside."""
        for path in dict.fromkeys(self.paths.values()):
            _write(f"{path}/cgroup.procs", pid)

    @contextlib.contextmanager
    def entrances(self) -> Iterator[tuple[int, ...]]:
        """Descriptors by which a process of ours that helps moves itself in: it writes ``0`` to each.

        To move another process, the kernel stops all forks of the host until every processor has taken note. Under
        version 1 a thread that moves itself does without; under version 2 there is no such way, and no descriptor.
        """
        with contextlib.ExitStack() as stack:
            opened = []
            for path in dict.fromkeys(self.paths.values()) if self.version == 1 else ():
                opened.append(os.open(f"{path}/tasks", os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, opened[-1])
            yield tuple(opened)

    def counters(self) -> Counters:
        """Read the accounts.

        Raises:
            SandboxError: They can't be read: somebody has removed the group.
        """
        try:
            return self._counters()
        except OSError as error:
            raise SandboxError(f"cgroup accounts: {error}") from error

    def _counters(self) -> Counters:
        refused_forks = _fields(f"{self.paths['pids']}/pids.events")[b"max"]
        memory = self.paths["memory"]
        if self.version == 2:
            peak = Path(f"{memory}/memory.peak")
            return Counters(
                oom_kills=_fields(f"{memory}/memory.events")[b"oom_kill"],
                refused_forks=refused_forks,
                cpu_seconds=_fields(f"{self.paths['cpu']}/cpu.stat")[b"usage_usec"] / 1e6,
                peak_memory_bytes=int(peak.read_text()) if peak.exists() else None,
            )
        return Counters(
            oom_kills=_fields(f"{memory}/memory.oom_control")[b"oom_kill"],
            refused_forks=refused_forks,
            cpu_seconds=int(_read(f"{self.paths['cpuacct']}/cpuacct.usage")) / 1e9,
            peak_memory_bytes=int(_read(f"{memory}/memory.max_usage_in_bytes")),
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
    manager = "" if os.geteuid() == 0 else "--user "
    raise SandboxError(
        "no cgroup in which memory, processes and processor time can be limited: " + "; ".join(failures),
        hint="start Gloveport as root, under systemd with `systemd-run --scope -p Delegate=yes gloveport serve`, or "
        "boot the host with systemd.unified_cgroup_hierarchy=1"
        if "memory" in memberships  # then it belongs to version 1, which nobody hands on to ordinary users
        else f"start Gloveport with `systemd-run {manager}--scope -p Delegate=yes gloveport serve`, "
        "with no wrapper such as uvx or a shell in between",
    )


def _version_2(root: Path, memberships: Mapping[str, str]) -> Tree:
    """Use the group we are in, or the one above when a server has stepped aside into its leaf before."""
    mounted = root if (root / "cgroup.controllers").exists() else root / "unified"
    if "" not in memberships:
        raise SandboxError("it is not mounted")
    base = mounted / memberships[""].lstrip("/")
    if base.name == _LEAF:
        base = base.parent
    available = (base / "cgroup.controllers").read_text().split()
    if missing := [name for name in CONTROLLERS if name not in available]:
        raise SandboxError(f"{base} lacks the controllers {', '.join(missing)}")
    _sweep(base)
    _hand_on(base)
    directory = base / _own_name()
    directory.mkdir()
    try:
        (directory / "cgroup.subtree_control").write_text(_ALL)
    except OSError:
        directory.rmdir()
        raise
    return Tree(version=2, directories=dict.fromkeys(CONTROLLERS, directory))


def _hand_on(base: Path) -> None:
    """Let groups below ``base`` have the controllers; a group with processes of its own can't, so we leave it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            (base / "cgroup.subtree_control").write_text(_ALL)
        except OSError as error:
            # Busy: processes live in it. Kernels say so for a moment even after the last one has left.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        else:
            return
        _step_aside(base)
        time.sleep(_STEP_SECONDS)


def _step_aside(base: Path) -> None:
    """Move this process, and it alone, into a leaf of ``base``, where it stays: there is no way back while ``base``
    hands controllers on. Servers in the same place share the leaf; whoever removes ``base`` removes it too.

    Raises:
        SandboxError: Others live in ``base``. It may be nobody's to rearrange, like the scope of a login session.
    """
    if others := _processes(base) - {os.getpid()}:
        raise SandboxError(f"{base} holds other processes than Gloveport: {', '.join(map(str, sorted(others)))}")
    leaf = base / _LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _version_1(root: Path, memberships: Mapping[str, str]) -> Tree:
    """Use our group of each controller. Several may be one directory under several names, such as cpu and cpuacct."""
    controllers = (*CONTROLLERS, "cpuacct")
    if missing := [name for name in controllers if name not in memberships]:
        raise SandboxError(f"the controllers {', '.join(missing)} are not mounted")
    _require_delegated(root, memberships)
    name = _own_name()
    directories: dict[str, Path] = {}
    for controller in controllers:
        base = (root / controller).resolve() / memberships[controller].lstrip("/")
        _sweep(base)
        directories[controller] = base / name
    made: list[Path] = []
    try:
        for directory in dict.fromkeys(directories.values()):
            directory.mkdir()
            made.append(directory)
    except OSError:
        for directory in made:
            directory.rmdir()
        raise
    return Tree(version=1, directories=directories)


def _require_delegated(root: Path, memberships: Mapping[str, str]) -> None:
    """Under version 1, when the controllers of a unit change, systemd moves all its processes into the unit's own
    groups, out of ours and our limits, unless it has delegated the unit. Under version 2 the kernel prevents that.
    """
    # Where systemd keeps units, and marks those it has delegated: in the hierarchy without controllers that it uses.
    places = (("unified", ""), ("systemd", "name=systemd"))
    groups = [root / directory / memberships.get(name, "").lstrip("/") for directory, name in places]
    units = [group for group in groups if group.suffix in (".service", ".scope")]
    if units and not any(_is_delegated(unit) for unit in units):
        raise SandboxError(f"systemd has not delegated {units[0].name}")


def _is_delegated(unit: Path) -> bool:
    try:
        return os.getxattr(unit, "trusted.delegate") == b"1"
    except OSError:
        return False


def _memberships(text: str) -> dict[str, str]:
    """Controller → path of our group, from /proc/self/cgroup; version 2 stands under the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _own_name() -> str:
    """Unique per server: a process id alone comes back after a while, and counts in its pid namespace only."""
    me = os.getpid()
    return f"{_PREFIX}{_pid_namespace()}-{me}-{_start_time(str(me))}-{os.urandom(4).hex()}"


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: str) -> str:
    """Start time of a process in clock ticks since boot, or nothing when it is gone."""
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _sweep(base: Path) -> None:
    """Remove the directories of servers that died without tidying up. Their sandboxes died with them, so nothing is
    killed here: a group in which something lives can't be removed, and stays.
    """
    for directory in base.glob(f"{_PREFIX}*-*-*-*"):
        namespace, pid, started = directory.name.removeprefix(_PREFIX).split("-")[:3]
        if namespace == _pid_namespace() and _start_time(pid) != started:
            for below in [*directory.glob("*/"), directory]:
                with contextlib.suppress(OSError):
                    below.rmdir()


def _empty_and_remove(directory: str | Path) -> None:
    """Kill what still lives in a group of sandboxes and remove it. One that is gone already is well.

    Raises:
        SandboxError: It does not become empty: a process hangs in the kernel.
    """
    try:
        os.rmdir(directory)  # noqa: PTH106 - as a rule nobody is left in it, and that is all
    except OSError:
        _empty(Path(directory))


def _empty(directory: Path) -> None:
    for child in directory.glob("*/"):
        _empty_and_remove(child)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            _kill(directory)
            directory.rmdir()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return
            # A killed process leaves its group when the kernel has torn it down: soon, but not at once.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise SandboxError(f"{directory} can't be removed: {error.strerror}") from error
            time.sleep(_STEP_SECONDS)
        else:
            return


def _kill(directory: Path) -> None:
    """Kill what lives in a group. A number read there may be another process's the next moment; if it still stands
    there once a descriptor is open, the descriptor is that of a process in the group, or of one that is dead.
    """
    with contextlib.ExitStack() as stack:
        opened: dict[int, FileIO] = {}
        for pid in _processes(directory):
            with contextlib.suppress(ProcessLookupError):
                opened[pid] = stack.enter_context(FileIO(os.pidfd_open(pid)))
        for pid in opened.keys() & _processes(directory):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(opened[pid].fileno(), signal.SIGKILL)


def _processes(directory: Path) -> set[int]:
    """Those directly in a group; 0 stands for each that is in no pid namespace of ours."""
    return set(map(int, (directory / "cgroup.procs").read_text().split()))


def _write(path: str, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _write_where_present(path: str, value: object) -> None:
    """There is no such file where the kernel does not account for swap."""
    with contextlib.suppress(FileNotFoundError):
        _write(path, value)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _FILE_BYTES)
    finally:
        os.close(descriptor)


def _fields(path: str) -> dict[bytes, int]:
    return {name: int(value) for name, value in (line.split() for line in _read(path).splitlines())}
