"""The server's side of the reaper, which starts bubblewrap and kills what is left: see ``reaper.py``."""

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import anyio
from msgspec import Struct, field

from gloveport.errors import SandboxError
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.reaper import reaper
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

    _process: "subprocess.Popen[bytes] | None" = None
    _control: socket.socket = field(default_factory=socket.socket)
    """To the reaper, where there is one."""

    _places: list[Path] = field(default_factory=list)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator["Launcher"]:
        """One; on leaving, all that it has started is dead, and the cgroups it was told of are removed.

        Raises:
            SandboxError: A process hangs in the kernel.
        """
        launcher = cls()
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
        if not self.prepare():
            self._announce()

    def prepare(self) -> bool:
        """Start the reaper ahead of need, where there is none yet; whether there was none.

        Raises:
            OSError: There can be none.
        """
        is_missing = self._process is None
        if is_missing:
            self._start()
        return is_missing

    async def launch(self, descriptors: Sequence[int], held: Sequence[int], stack: contextlib.ExitStack) -> Launched:
        """Start a launch.

        Args:
            descriptors: Of its standard error, its specification, and what it inherits.
            held: What the reaper holds until it is dead.
            stack: Closes what tells its end.

        Raises:
            OSError: It can't be started.
        """
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        ours.settimeout(0)
        passed = (theirs.fileno(), *descriptors, *held)
        with theirs:
            async with self._turn:
                await self._send(passed, len(held))
        return Launched(status=ours)

    async def _send(self, passed: tuple[int, ...], held: int) -> None:
        self.prepare()
        try:
            await frames.send_descriptors(self._control, passed, held)
        except (BrokenPipeError, ConnectionResetError):  # somebody has killed it, and with it what it has started
            self._start()
            await frames.send_descriptors(self._control, passed, held)

    def _announce(self) -> None:
        with FileIO(os.memfd_create("gloveport"), "w+") as file:
            file.write("\n".join(map(str, self._places)).encode())
            file.seek(0)
            socket.send_fds(self._control, [bytes([reaper.PLACES])], [file.fileno()])

    def _start(self) -> None:
        """Start one, in the place of one that is dead, if there was one."""
        self._close()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(0)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - every word of the command line is ours
                [sys.executable, "-I", "-S", reaper.__file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._announce()

    def _close(self) -> None:
        self._control.close()
        if self._process is not None and self._process.returncode is None:
            ended = select.poll()  # to wait with a time-out, ``subprocess`` looks now and then
            with FileIO(os.pidfd_open(self._process.pid)) as process:
                ended.register(process, select.POLLIN)
                if not ended.poll(_PATIENCE_SECONDS * 1000):
                    raise SandboxError("a sandbox can't be cleared away: a process hangs in the kernel")
            self._process.wait()

    def _end(self) -> None:
        self._close()
        for place in self._places:  # if it has been killed, they are left
            cgroup.remove(place)
