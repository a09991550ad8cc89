"""Probes of the host, in a process of their own: how long small things take, and whether they can be had at all.

``python -m bench.siege.probes DIRECTORY`` prints a line when one begins, ``NAME START``, and one when it is done,
``NAME START SECONDS`` or ``NAME START error TEXT``. Times are those of the monotonic clock, which is one for the host.
"""

import ctypes
import errno
import fcntl
import os
import pty
import select
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

_PAUSE_SECONDS: Final = 0.05
_BLOCK: Final = 4096
_BLOCKS: Final = 8192
_LEAST_MEMORY: Final = 0.05
_libc = ctypes.CDLL(None, use_errno=True)


def main(directory: Path) -> None:
    """Probe until the process is ended."""
    for name, probe in probes(directory).items():
        threading.Thread(target=_repeat, args=(name, probe), daemon=True).start()
    sys.stdin.read()  # until whoever started us closes it, or dies


def probes(directory: Path) -> Mapping[str, Callable[[], None]]:
    """All of them, by name, with a directory on a disk of the host."""
    true, unshare = shutil.which("true") or "/bin/true", shutil.which("unshare") or "/usr/bin/unshare"
    unshare_network, unshare_mounts = ("-n", "-m") if os.geteuid() == 0 else ("-Urn", "-Urm")
    cold, small = directory / "cold", directory / "small"
    cold.write_bytes(os.urandom(_BLOCK) * _BLOCKS)
    descriptor = os.open(cold, os.O_RDONLY)
    os.fsync(descriptor)
    return {
        "fork": partial(_start, [true]),
        "netns": partial(_start, [unshare, unshare_network, true]),
        "mounts": partial(_start, [unshare, unshare_mounts, true]),
        "fsync": partial(_write_through, os.open(small, os.O_WRONLY | os.O_CREAT, 0o600)),
        "read": partial(_read_cached, Path(_libc_path())),
        "disk": partial(_read_cold, descriptor),
        "objects": _make_objects,
        "memory": _require_memory,
    }


def _repeat(name: str, probe: Callable[[], None]) -> None:
    while True:
        began = time.monotonic()
        _print(f"{name} {began}")
        try:
            probe()
        except OSError as error:
            _print(f"{name} {began} error {error}")
        else:
            _print(f"{name} {began} {time.monotonic() - began}")
        time.sleep(_PAUSE_SECONDS)


def _print(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # at once, and whole: it is shorter than a pipe's atom


def _start(command: list[str]) -> None:
    pid = os.posix_spawn(command[0], command, {})
    if status := os.waitpid(pid, 0)[1]:
        raise OSError(errno.ECHILD, f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")


def _write_through(descriptor: int) -> None:
    os.pwrite(descriptor, os.urandom(16), 0)
    os.fsync(descriptor)


def _read_cached(path: Path) -> None:
    """Of a file that everybody uses: who watches or locks it is noticed here."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.pread(descriptor, _BLOCK, 0)
    finally:
        os.close(descriptor)


def _read_cold(descriptor: int) -> None:
    place = _BLOCK * int.from_bytes(os.urandom(2)) % (_BLOCK * _BLOCKS)
    os.posix_fadvise(descriptor, place, _BLOCK, os.POSIX_FADV_DONTNEED)
    os.pread(descriptor, _BLOCK, place)


def _make_objects() -> None:
    """One of each that a user, or the host, has only so many of: an error says that there are none left."""
    opened: list[int] = []
    try:
        opened += os.pipe()
        # All processes of an ordinary user share so many pages of pipes; when those are used, pipes are small.
        least = 4 * _BLOCK if os.geteuid() == 0 else _BLOCK
        if fcntl.fcntl(opened[0], fcntl.F_GETPIPE_SZ) < least:  # type: ignore[attr-defined] - since 3.10
            raise OSError(errno.EMFILE, "only small pipes are left")
        opened += pty.openpty()
        opened += (end.detach() for end in socket.socketpair())
        opened.append(os.memfd_create("probe"))
        opened.append(os.eventfd(0))
        with select.epoll() as epoll:
            epoll.register(opened[0])
        fcntl.lockf(opened[-2], fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened.append(_require(_libc.inotify_init1(0), "inotify_init1"))
        _require(_libc.inotify_add_watch(opened[-1], b"/", 0x100), "inotify_add_watch")
        opened.append(_require(_libc.timerfd_create(1, 0), "timerfd_create"))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _require_memory() -> None:
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    left, total = (int(memory[name].split()[0]) // 1024 for name in ("MemAvailable", "MemTotal"))
    if left < _LEAST_MEMORY * total:
        raise OSError(errno.ENOMEM, f"less than {_LEAST_MEMORY:.0%} of the host's memory is left")


def _require(answer: int, what: str) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return answer


def _libc_path() -> str:
    """The C library that this process runs with."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if "/libc." in line or "/libc-" in line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
