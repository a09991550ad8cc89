"""Makes cgroups, of version 2 or 1: limits and accounts of a whole sandbox.

A ``CgroupTree`` is this server's own directory, which ``delegation.py`` finds: it holds one group per sandbox and
nothing else. Processes that still live in a group die with it; only processes of sandboxes are moved or killed.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gloveport.errors import SandboxError
from gloveport.model import Limits
from gloveport.sandbox.reaper.reaper import clear, lift_quotas

CONTROLLERS = ("memory", "pids", "cpu")

DISKS = "blkio"
"""The controller of disks, of version 1. It is used where it is there, and has one group for all sandboxes."""

BACKGROUND = 1 / 8
"""CPU weight of sandboxes that are made ahead, relative to a running program's."""

_PERIOD_MICROSECONDS = 100_000  # the kernel's default
_LEAST_QUOTA_MICROSECONDS = 1000  # likewise
_FILE_BYTES = 4096
_EVERYTHING_BYTES = 1 << 40
_PEAK = "memory.peak"  # version 2 has it since Linux 5.19
_KERNEL_KINDS = ("slab_unreclaimable", "kernel_stack", "pagetables", "percpu", "vmalloc")
_ACCOUNTS = {
    1: ("memory.oom_control", "memory.max_usage_in_bytes", "pids.events", "cpuacct.usage"),
    2: ("memory.events", _PEAK, "pids.events", "cpu.stat"),
}


class Counters(Struct, frozen=True, kw_only=True):
    """The kernel's counters of one group since it was made."""

    oom_kills: int
    refused_forks: int
    cpu_seconds: float
    peak_memory_bytes: int | None
    """None if the kernel does not keep it: version 2 before Linux 5.19."""


class CgroupTree(Struct, frozen=True, kw_only=True):
    """The directories in which groups are made: one per controller (version 1), or one for all (version 2)."""

    version: Literal[1, 2]
    directories: Mapping[str, Path]
    """Controller → directory of this server. Version 1 has ``cpuacct`` as a further one, and perhaps ``DISKS``."""

    @contextlib.contextmanager
    def group(self, name: str, limits: Limits) -> Iterator["Cgroup"]:
        """A group with these limits; on leaving, processes in it are killed and the group is removed.

        Raises:
            SandboxError: It can't be made, or not removed since a process hangs in the kernel.
        """
        with contextlib.ExitStack() as stack:
            try:
                paths: dict[str, str] = {}
                for controller, directory in self.directories.items():
                    path = str(directory) if controller == DISKS else f"{directory}/{name}"
                    if (
                        controller != DISKS and path not in paths.values()
                    ):  # one directory may serve several controllers
                        os.mkdir(path)  # noqa: PTH102 - on the way of each run: pathlib takes longer than the kernel
                        stack.callback(remove, path)
                    paths[controller] = path
                accounts = stack.enter_context(_open_accounts(_ACCOUNTS[self.version], paths))
                group = Cgroup(version=self.version, paths=paths, accounts=accounts)
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
                owned.callback(remove, directory)


class Cgroup(Struct, frozen=True, kw_only=True):
    """The group of one sandbox."""

    version: Literal[1, 2]
    paths: Mapping[str, str]
    accounts: Mapping[str, FileIO]
    """Name → file, open from the first: a program's answer waits while they are read."""

    def limit(self, limits: Limits) -> None:
        """Write the limits. Swap is closed: it would be memory beyond the limit."""
        memory, pids, cpu = (self.paths[name] for name in CONTROLLERS)
        _write(f"{pids}/pids.max", limits.processes)
        if self.version == 2:
            _write(f"{memory}/memory.max", int(limits.memory_bytes))
            write_where_present(f"{memory}/memory.swap.max", 0)
            _write(f"{memory}/memory.oom.group", 1)
            self.limit_cpus(limits.cpus)
        else:
            _write(f"{memory}/memory.limit_in_bytes", int(limits.memory_bytes))
            write_where_present(f"{memory}/memory.memsw.limit_in_bytes", int(limits.memory_bytes))
            # Version 1 counts the buffers of sockets apart. Unbounded, one sandbox uses up the TCP memory of the host.
            write_where_present(f"{memory}/memory.kmem.tcp.limit_in_bytes", int(limits.memory_bytes))
            # For the period that each new group begins with, whatever its parent's is.
            _write(f"{cpu}/cpu.cfs_quota_us", _quota(limits.cpus, _PERIOD_MICROSECONDS))

    def lower_limits(self, present: Limits, new_limits: Limits) -> None:
        """Write limits that are lower, if any is."""
        names = ("memory_bytes", "processes", "cpus")
        if any(getattr(present, name) != getattr(new_limits, name) for name in names):
            self.limit(new_limits)

    def set_weight(self, weight: float) -> None:
        """Set the share of processor time among competing sandboxes: 1 is a running program's."""
        if self.version == 2:
            _write(f"{self.paths['cpu']}/cpu.weight", round(100 * weight))
        else:
            _write(f"{self.paths['cpu']}/cpu.shares", round(1024 * weight))

    def limit_cpus(self, cpus: float, period: int = _PERIOD_MICROSECONDS) -> None:
        """Limit it to the time of so many processors in each period, which is in microseconds."""
        quota = _quota(cpus, period)
        if self.version == 2:
            _write(f"{self.paths['cpu']}/cpu.max", f"{quota} {period}")
            return
        values = [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", period)]
        if period == _PERIOD_MICROSECONDS:
            values.reverse()
        for name, value in values:  # between the two writes it is within the parent's limit
            _write(f"{self.paths['cpu']}/{name}", value)

    def throttled_periods(self) -> int:
        """How many periods ended with its quota used up, and it stopped."""
        account = _read_where_present(f"{self.paths['cpu']}/cpu.stat")
        return _value(account, b"nr_throttled") if account else 0

    def processes(self) -> int:
        """How many processes and threads it has."""
        return int(_read_where_present(f"{self.paths['pids']}/pids.current") or 0)

    def lift_quota(self) -> None:
        """Lift its processor quota before a kill: tearing down its resources takes processor time."""
        lift_quotas([self.paths["cpu"]])

    def attach(self, pid: int) -> None:
        """Move a process in; its later children are born inside."""
        for path in dict.fromkeys(self.paths.values()):
            _write(f"{path}/cgroup.procs", pid)

    @contextlib.contextmanager
    def open_entrances(self) -> Iterator[tuple[int, ...]]:
        """Descriptors by which a helper process of ours moves itself in: it writes ``0`` to each.

        To move another process, the kernel stops all forks of the host until every processor has taken note. Under
        version 1 a thread that moves itself does without; under version 2 there is no such way, and no descriptor.
        """
        with contextlib.ExitStack() as stack:
            opened = []
            for path in dict.fromkeys(self.paths.values()) if self.version == 1 else ():
                opened.append(os.open(f"{path}/tasks", os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, opened[-1])
            yield tuple(opened)

    def kernel_bytes(self) -> int:
        """Kernel memory held for the programs. Version 1 can't tell the freeable part, so it counts too."""
        if self.version == 1:
            return self._read_number("memory.kmem.usage_in_bytes")
        found = self._read_memory_stat()
        if "kernel" in found:  # since Linux 5.18
            return found["kernel"] - found.get("slab_reclaimable", 0)
        return sum(found.get(kind, 0) for kind in _KERNEL_KINDS)

    def has_ever_used(self, memory_bytes: int) -> bool:
        """Whether it has ever had more memory than that; True if the kernel does not keep the peak."""
        account = self.accounts.get("memory.max_usage_in_bytes" if self.version == 1 else _PEAK)
        try:
            return account is None or int(os.pread(account.fileno(), _FILE_BYTES, 0)) > memory_bytes
        except OSError:  # the group has been removed
            return False

    def cached_kernel_bytes(self) -> int:
        """Memory of unused kernel objects, such as negative directory entries, once no process is left."""
        if self.version == 1:
            return self._read_number("memory.kmem.usage_in_bytes")
        return self._read_memory_stat().get("slab_reclaimable", 0)

    def exceeds_with_sockets(self, memory_bytes: int) -> bool:
        """Whether memory and TCP buffers together exceed this. Version 1 limits each separately."""
        if self.version == 2:
            return False
        buffers = self._read_number("memory.kmem.tcp.usage_in_bytes")
        return buffers > 0 and self._read_number("memory.usage_in_bytes") + buffers > memory_bytes

    @property
    def reclaim_request(self) -> tuple[str, int]:
        """A file, and the text that makes the kernel free as much of this group's memory as it can.

        The kernel continues as long as programs allocate more. Version 2 has it since Linux 5.19.
        """
        if self.version == 1:
            return f"{self.paths['memory']}/memory.force_empty", 0
        return f"{self.paths['memory']}/memory.reclaim", _EVERYTHING_BYTES

    def reclaim(self) -> None:
        """Have the kernel free as much as it can of the memory of this group without processes."""
        with contextlib.suppress(OSError):  # EAGAIN: some of it can't be freed
            _write(*self.reclaim_request)

    def _read_number(self, name: str) -> int:
        return int(_read_where_present(f"{self.paths['memory']}/{name}") or 0)

    def _read_memory_stat(self) -> dict[str, int]:
        words = _read_where_present(f"{self.paths['memory']}/memory.stat").decode().split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    def counters(self) -> Counters:
        """Read the accounts.

        Raises:
            SandboxError: They can't be read: the group has been removed.
        """
        try:
            # The kernel renders an account for each read from its beginning, and none once the group is removed.
            read = {name: os.pread(file.fileno(), _FILE_BYTES, 0) for name, file in self.accounts.items()}
        except OSError as error:
            raise SandboxError(f"cgroup accounts: {error}") from error
        if self.version == 2:
            return Counters(
                oom_kills=_value(read["memory.events"], b"oom_kill"),
                refused_forks=_value(read["pids.events"], b"max"),
                cpu_seconds=_value(read["cpu.stat"], b"usage_usec") / 1e6,
                peak_memory_bytes=int(read[_PEAK]) if _PEAK in read else None,
            )
        return Counters(
            oom_kills=_value(read["memory.oom_control"], b"oom_kill"),
            refused_forks=_value(read["pids.events"], b"max"),
            cpu_seconds=int(read["cpuacct.usage"]) / 1e9,
            peak_memory_bytes=int(read["memory.max_usage_in_bytes"]),
        )


@contextlib.contextmanager
def _open_accounts(names: Iterable[str], paths: Mapping[str, str]) -> Iterator[dict[str, FileIO]]:
    """Files of a group, to be read. A file's name begins with its controller."""
    with contextlib.ExitStack() as stack:
        files: dict[str, FileIO] = {}
        for name in names:
            try:
                files[name] = stack.enter_context(FileIO(f"{paths[name.partition('.')[0]]}/{name}"))
            except FileNotFoundError:
                if name != _PEAK:
                    raise
        yield files


def remove(directory: str | Path, deadline: float | None = None) -> None:
    """Kill the processes in a group of sandboxes and remove it. It may be gone already.

    ``deadline``: see ``reaper.clear``.

    Raises:
        SandboxError: It does not become empty: a process hangs in the kernel.
    """
    try:
        os.rmdir(directory)  # noqa: PTH106 - as a rule nobody is left in it, and that is all
    except OSError:
        try:
            clear(str(directory), deadline)
        except OSError as error:
            raise SandboxError(f"{directory} can't be removed: {error.strerror}") from error


def _quota(cpus: float, period: int) -> int:
    return max(_LEAST_QUOTA_MICROSECONDS, int(cpus * period))


def _write(path: str | Path, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def write_where_present(path: str | Path, value: object) -> None:
    """Write a file that not every kernel has, as those that do not account for swap."""
    with contextlib.suppress(FileNotFoundError):
        _write(path, value)


def _read_where_present(path: str) -> bytes:
    """The contents of a group's file; empty if the kernel has no such file, or the group is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.read(descriptor, _FILE_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _value(account: bytes, name: bytes) -> int:
    """The number that follows a name; names and numbers take turns."""
    words = account.split()
    return int(words[words.index(name) + 1])
