"""The server's side of the reaper, which starts bubblewrap and kills leftover processes: see ``reaper.py``."""

import contextlib
import errno
import os
import select
import socket
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import anyio
from msgspec import Struct, field

from gloveport.errors import SandboxError
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.reaper import reaper
from gloveport.sandbox.reaper.reaper_process import ReaperProcess, start_reaper
from gloveport.sandbox.run import frames

_PATIENCE_SECONDS = 5.0
_STATUS_BYTES = reaper.STATUS.size


class Launched(Struct, kw_only=True):
    """A launched process, until it is dead.

    Attributes:
        code: How it ended, once it is dead: its exit code, or the negative signal. None also if unknown, since the
            reaper was killed.
        is_over: Whether it is dead.
    """

    status: socket.socket
    code: int | None = None
    is_over: bool = False
    _pid: int = 0

    @property
    def pid(self) -> int:
        """Its process id, which may be another process's once it is dead; 0 before it has started."""
        if not self._pid:
            with contextlib.suppress(BlockingIOError):
                self._take()
        return self._pid

    def kill(self) -> None:
        """Have the reaper kill it with all that it has started."""
        with contextlib.suppress(OSError):  # it has ended
            self.status.shutdown(socket.SHUT_WR)

    async def wait_started(self) -> None:
        """Return when its process id is known, or it is dead: on a busy host it may run before the reaper tells."""
        while not self.pid and not self.is_over:
            await anyio.wait_readable(self.status)

    async def wait(self) -> None:
        """Return when it is dead."""
        while not self.is_over:
            await anyio.wait_readable(self.status)
            self._take()

    def _take(self) -> None:
        """Read the reaper's messages: a process id, then a wait status."""
        try:
            data = self.status.recv(_STATUS_BYTES)
        except ConnectionResetError:
            data = b""
        if len(data) < _STATUS_BYTES:
            self.is_over = True
        elif not self._pid:
            (self._pid,) = reaper.STATUS.unpack(data)
        else:
            self.code = os.waitstatus_to_exitcode(reaper.STATUS.unpack(data)[0])
            self.is_over = True


class Launcher(Struct, kw_only=True):
    """Starts the reaper, again if it was killed, and has it start launches.

    It starts the reaper only when needed: to delegate cgroups to us, version 2 demands that no other process is in the
    group.
    """

    _reaper: ReaperProcess | None = None
    _places: list[Path] = field(default_factory=list)
    _turn: "anyio.Lock | None" = None
    """Made on first use: it needs many imports."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, started: ReaperProcess | None = None) -> Iterator["Launcher"]:
        """Open a launcher; on leaving, all that it has started is dead, and the claimed cgroups are removed.

        ``started``: its reaper, if already started.

        Raises:
            SandboxError: A process hangs in the kernel, or this host lets us watch none.
        """
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.EACCES, errno.ENOSYS}:  # no descriptor is left, or no memory
                raise
            raise SandboxError(
                f"no process can be watched here: pidfd_open: {error.strerror}",
                hint="a container's system call filter may refuse it: update the container engine, or permit it there",
            ) from error
        launcher = cls(_reaper=started)
        try:
            yield launcher
        finally:
            launcher._end()

    def claim(self, places: Sequence[Path]) -> None:
        """Have these cgroups removed when this server ends, however it ends. Call it before they are made.

        Raises:
            OSError: No reaper can be started.
        """
        self._places += places
        if self._reaper is None:
            self._start()
        else:
            self._announce(self._reaper)

    def prepare(self) -> None:
        """Start the reaper ahead of need, if there is none yet. Raises OSError if it can't be started."""
        if self._reaper is None:
            self._start()

    async def launch(
        self, descriptors: Sequence[int], held_descriptors: Sequence[int], stack: contextlib.ExitStack
    ) -> Launched:
        """Start a launch, which inherits ``descriptors``: its standard error, its specification, and others. The reaper
        holds ``held_descriptors`` until it is dead; ``stack`` closes the status socket.

        Raises:
            OSError: It can't be started.
        """
        ours, theirs = _open_status(stack)
        passed = (theirs.fileno(), *descriptors, *held_descriptors)
        with theirs:
            self._turn = self._turn or anyio.Lock()
            async with self._turn:  # if the reaper is behind, one task at a time waits for room
                await self._send(passed, len(held_descriptors))
        return Launched(status=ours)

    def launch_first(
        self, descriptors: Sequence[int], held_descriptors: Sequence[int], stack: contextlib.ExitStack
    ) -> Launched:
        """As ``launch``, before there is an event loop: the first one finds room, so it need not wait."""
        ours, theirs = _open_status(stack)
        with theirs:
            current, passed = self._reaper or self._start(), [theirs.fileno(), *descriptors, *held_descriptors]
            try:
                socket.send_fds(current.control, [bytes([len(held_descriptors)])], passed)
            except (BrokenPipeError, ConnectionResetError):  # as in ``_send``
                socket.send_fds(self._start().control, [bytes([len(held_descriptors)])], passed)
        return Launched(status=ours)

    async def _send(self, passed: tuple[int, ...], held_count: int) -> None:
        current = self._reaper or self._start()
        try:
            await frames.send_descriptors(current.control, passed, held_count)
        except (BrokenPipeError, ConnectionResetError):  # it was killed, and with it all that it had started
            await frames.send_descriptors(self._start().control, passed, held_count)

    def _announce(self, current: ReaperProcess) -> None:
        with FileIO(os.memfd_create("gloveport"), "w+") as file:
            file.write("\n".join(map(str, self._places)).encode())
            file.seek(0)
            socket.send_fds(current.control, [bytes([reaper.PLACES])], [file.fileno()])

    def _start(self) -> ReaperProcess:
        """Start a reaper, in place of a dead one if there was one."""
        self._close()
        self._reaper = started = start_reaper()
        self._announce(started)
        return started

    def _close(self) -> None:
        if self._reaper is None:
            return
        process, control = self._reaper
        control.close()
        if process.returncode is None:
            ended = select.poll()  # ``subprocess`` would poll to wait with a time-out
            with FileIO(os.pidfd_open(process.pid)) as descriptor:
                ended.register(descriptor, select.POLLIN)
                if not ended.poll(_PATIENCE_SECONDS * 1000):
                    raise SandboxError("a sandbox can't be cleared away: a process hangs in the kernel")
            process.wait()

    def _end(self) -> None:
        self._close()
        for place in self._places:  # left over if the reaper was killed
            cgroup.remove(place)


def _open_status(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Our end of a socket that tells how a launch ends, and the reaper's."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    ours.settimeout(0)
    return ours, theirs
