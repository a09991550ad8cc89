"""The server's side of the reaper, which starts bubblewrap and kills what is left: see ``reaper.py``."""

import contextlib
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
    """What has been started, until it is dead.

    Attributes:
        code: How it ended, once it is dead: its exit code, or the negative signal. None also where nobody knows, since
            the reaper has been killed.
        is_over: Whether it is dead.
    """

    status: socket.socket
    code: int | None = None
    is_over: bool = False
    _pid: int = 0

    @property
    def pid(self) -> int:
        """Its process id, which is another's when it is dead; 0 where it has not been started yet."""
        if not self._pid:
            with contextlib.suppress(BlockingIOError):
                self._take()
        return self._pid

    def kill(self) -> None:
        """Have it killed with all that it has started."""
        with contextlib.suppress(OSError):  # it is over
            self.status.shutdown(socket.SHUT_WR)

    async def wait(self) -> None:
        """Return when it is dead."""
        while not self.is_over:
            await anyio.wait_readable(self.status)
            self._take()

    def _take(self) -> None:
        """Take what is told: a process id, then a wait status."""
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
    """Starts the reaper, another one should it be killed, and has it start what is asked for.

    Not before it is needed: where cgroups are handed on to us, version 2 demands that nobody else is there.
    """

    _reaper: ReaperProcess | None = None
    _places: list[Path] = field(default_factory=list)
    _turn: "anyio.Lock | None" = None
    """Made when it is needed: much is imported for it."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, started: ReaperProcess | None = None) -> Iterator["Launcher"]:
        """One; on leaving, all that it has started is dead, and the cgroups it was told of are removed.

        ``started``: its reaper, where that was started before.

        Raises:
            SandboxError: A process hangs in the kernel.
        """
        launcher = cls(_reaper=started)
        try:
            yield launcher
        finally:
            launcher._end()

    def claim(self, places: Sequence[Path]) -> None:
        """Let cgroups be removed when this server ends, however it does. To be called before they are made.

        Raises:
            OSError: There can be no reaper.
        """
        self._places += places
        if self._reaper is None:
            self._start()
        else:
            self._announce(self._reaper)

    def prepare(self) -> None:
        """Start the reaper ahead of need, where there is none yet.

        Raises:
            OSError: There can be none.
        """
        if self._reaper is None:
            self._start()

    async def launch(self, descriptors: Sequence[int], held: Sequence[int], stack: contextlib.ExitStack) -> Launched:
        """Start a launch.

        Args:
            descriptors: Of its standard error, its specification, and what it inherits.
            held: What the reaper holds until it is dead.
            stack: Closes what tells its end.

        Raises:
            OSError: It can't be started.
        """
        ours, theirs = _open_status(stack)
        passed = (theirs.fileno(), *descriptors, *held)
        with theirs:
            self._turn = self._turn or anyio.Lock()
            async with self._turn:  # where the reaper is behind, one waits for room
                await self._send(passed, len(held))
        return Launched(status=ours)

    def launch_first(self, descriptors: Sequence[int], held: Sequence[int], stack: contextlib.ExitStack) -> Launched:
        """As ``launch``, before there is an event loop: for the first there is room, so it has not to wait."""
        ours, theirs = _open_status(stack)
        with theirs:
            current, passed = self._reaper or self._start(), [theirs.fileno(), *descriptors, *held]
            try:
                socket.send_fds(current.control, [bytes([len(held)])], passed)
            except (BrokenPipeError, ConnectionResetError):  # as in ``_send``
                socket.send_fds(self._start().control, [bytes([len(held)])], passed)
        return Launched(status=ours)

    async def _send(self, passed: tuple[int, ...], held: int) -> None:
        current = self._reaper or self._start()
        try:
            await frames.send_descriptors(current.control, passed, held)
        except (BrokenPipeError, ConnectionResetError):  # somebody has killed it, and with it what it has started
            await frames.send_descriptors(self._start().control, passed, held)

    def _announce(self, current: ReaperProcess) -> None:
        with FileIO(os.memfd_create("gloveport"), "w+") as file:
            file.write("\n".join(map(str, self._places)).encode())
            file.seek(0)
            socket.send_fds(current.control, [bytes([reaper.PLACES])], [file.fileno()])

    def _start(self) -> ReaperProcess:
        """Start one, in the place of one that is dead, if there was one."""
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
            ended = select.poll()  # to wait with a time-out, ``subprocess`` looks now and then
            with FileIO(os.pidfd_open(process.pid)) as descriptor:
                ended.register(descriptor, select.POLLIN)
                if not ended.poll(_PATIENCE_SECONDS * 1000):
                    raise SandboxError("a sandbox can't be cleared away: a process hangs in the kernel")
            process.wait()

    def _end(self) -> None:
        self._close()
        for place in self._places:  # if it has been killed, they are left
            cgroup.remove(place)


def _open_status(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Our end of a socket that tells how a launch ends, and the reaper's."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    ours.settimeout(0)
    return ours, theirs
