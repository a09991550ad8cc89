"""Relays a person's input to a program in a sandbox, and the program's output to the person, with back pressure."""

import contextlib
import errno
import fcntl
import math
import os
import signal
import socket
import struct
import termios
from io import FileIO
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.cli.terminal.front import ENDED, STARTED, STOPPED, Settings, restore
from gloveport.cli.terminal.own_descriptors import reopen
from gloveport.sandbox.console import Console, close

if TYPE_CHECKING:
    from gloveport.cli.terminal.destination import Destination

_BYTES: Final = 1 << 16
_HELD_SECONDS: Final = 0.05
"""Output that is held back, since it may begin a secret, is written when nothing has followed for so long."""
_GRACE_SECONDS: Final = 2.0
"""How long a program may take to end after a signal, before it is killed."""
_RELEASE_SECONDS: Final = 2.0
_SIZE: Final = struct.Struct("HHHH")


def terminal_size(terminal: int) -> tuple[int, int]:
    """Return rows and columns; the usual ones if the terminal has no size."""
    rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(_SIZE.size)))
    return rows or 24, columns or 80


class Relay(Struct, eq=False, kw_only=True):
    """An ``Attachment`` of ``workspace_service.command_types``: our own streams, for one program.

    Attributes:
        tasks: Runs the relay's tasks; cancelled by a signal to end.
        outputs: Destinations of standard output and standard error; with a terminal, the first gets all.
        terminal: Descriptor of our terminal, if the program has a terminal; else None.
        signals: The signals that were sent to us, in order.
    """

    tasks: TaskGroup
    front: socket.socket
    terminal: int | None
    outputs: "tuple[Destination, ...]" = ()
    unwritten: OSError | None = None
    """Why standard output could not be written, though its reader is there."""
    warnings: list[str] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    _console: Console | None = None
    _goes_on: anyio.Event = field(default_factory=anyio.Event)
    _unanswered_stops: int = 0
    """How often the front was told to stop and has not answered: what it says until then, it said before."""
    _pumps: int = 0
    _pumped: anyio.Event = field(default_factory=anyio.Event)
    _waits: set[anyio.CancelScope] = field(default_factory=set)
    _has_ended: bool = False
    _released: anyio.Event = field(default_factory=anyio.Event)
    _hearing: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))
    _is_alone: bool = False
    """Whether the front was killed."""
    _settings: Settings = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.terminal is not None:
            self._settings = termios.tcgetattr(self.terminal)

    def begin(self, console: Console) -> None:
        """See ``Attachment``."""
        self._console = console
        if self.terminal is None:
            self._goes_on.set()
        else:  # only after the terminal is raw, or it would change the program's output
            console.resize(*terminal_size(self.terminal))
            self._send_word(STARTED)
        streams = [console.output] if console.is_terminal else [console.output, console.errors]
        self._pumps = len(streams)
        for stream, output in zip(streams, self.outputs, strict=False):
            self.tasks.start_soon(self._pump, stream, output)
        self.tasks.start_soon(self._type, console)
        if console.stops is not None:
            self.tasks.start_soon(self._watch_stops, console.stops)

    async def finish(self) -> None:
        """See ``Attachment``. Waits for slow readers of the output without a limit, and while we are stopped."""
        self._has_ended = True
        for wait in self._waits:
            wait.cancel()
        await self._pumped.wait()

    def say(self, line: str) -> None:
        """Print a line of ours while the program runs."""
        self.tasks.start_soon(self._write_line, line)

    async def _write_line(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the reader is gone
            await self.outputs[-1].say(line)

    async def release(self) -> None:
        """Have the front give the terminal back; from now on only we write to it."""
        for output in self.outputs:
            output.close()
        if self._console is not None and self.terminal is not None and not self._is_alone:
            self._send_word(ENDED)
            with anyio.move_on_after(_RELEASE_SECONDS, shield=True):
                await self._released.wait()
        if self.terminal is not None and self._is_alone:  # the front is dead and can't restore it
            restore(self.terminal, self._settings)
        self._hearing.cancel()

    async def follow_front(self) -> None:
        """Obey the front's messages until ``release``, even after all else was cancelled."""
        with self._hearing:
            while not self._is_alone:
                await anyio.wait_readable(self.front)
                signals = self.front.recv(_BYTES)
                self._is_alone = not signals
                for number in signals or bytes([signal.SIGHUP]):
                    self._take(number)

    def _take(self, number: int) -> None:
        if number == ENDED[0]:
            self._released.set()
        elif number == STOPPED[0]:
            self._unanswered_stops -= 1
        elif number in (STARTED[0], signal.SIGCONT) and self._unanswered_stops:
            pass  # the next one comes when the front has stopped, and goes on
        elif number == STARTED[0]:
            self._goes_on.set()
        elif number == signal.SIGCONT:
            self._resize()
            self._send(number)
        elif number == signal.SIGWINCH:
            self._resize()
        elif self._console is None and number == signal.SIGTSTP:
            self._stop_front()
        elif self._console is None or number == signal.SIGHUP or number in self.signals:
            self.signals.append(number)
            self.tasks.cancel_scope.cancel()
        else:
            self._send(number)
            if number == signal.SIGTERM:
                self.signals.append(number)
                self.tasks.start_soon(self._end_late)

    def _send(self, number: int) -> None:
        if self._console is not None and not self._console.process.closed:
            self._console.signal(number)

    async def _end_late(self) -> None:
        await anyio.sleep(_GRACE_SECONDS)
        self.tasks.cancel_scope.cancel()

    def _resize(self) -> None:
        if self._console is not None and self.terminal is not None and not self._has_ended:
            self._console.resize(*terminal_size(self.terminal))

    def _send_word(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self.front.send(word)

    async def _watch_stops(self, stops: FileIO) -> None:
        """Have the front stop when the program is stopped."""
        while not self._has_ended:
            with contextlib.suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(stops)
            if stops.closed or not stops.read(_BYTES):  # the sandbox is gone, or its program has ended
                return
            if self.terminal is not None and self._goes_on.is_set():  # meanwhile another job uses it
                self._goes_on = anyio.Event()
            self._stop_front()

    def _stop_front(self) -> None:
        self._unanswered_stops += 1
        self._send_word(STOPPED)

    async def _type(self, console: Console) -> None:
        """Relay our input to the program until either ends."""
        own = reopen(0, os.O_RDONLY)
        try:
            while data := await self._read_input(own):
                await console.write(data)
        except OSError:  # the program reads no more, or our terminal is gone
            pass
        finally:
            console.close_input()
            if own:
                os.close(own)

    async def _read_input(self, own: int) -> bytes:
        while True:
            await self._goes_on.wait()
            with contextlib.suppress(PermissionError):  # epoll refuses plain files, which never block
                await anyio.wait_readable(own)
            if self._goes_on.is_set():
                with contextlib.suppress(BlockingIOError):
                    return os.read(own, _BYTES)

    async def _pump(self, stream: FileIO, output: "Destination") -> None:
        try:
            while data := await self._read_output(stream, output):
                await output.write(data)
            await output.flush()
        except OSError as error:  # the output's reader is gone, or the disk full, and the program has to notice
            if self.terminal is None:
                close(stream)
                if output is self.outputs[0] and error.errno != errno.EPIPE:
                    self.unwritten = error
        finally:
            self._pumps -= 1
            if not self._pumps:
                self._pumped.set()

    async def _read_output(self, stream: FileIO, output: "Destination") -> bytes:
        """Read the next bytes; empty at the end. Output that a dead program has left is readable at once."""
        while True:
            await self._goes_on.wait()
            try:
                data = stream.read(_BYTES)
            except OSError:  # EIO: nobody has the other end of the terminal open
                return b""
            if data is not None:
                return data
            if self._has_ended:
                return b""
            with anyio.CancelScope() as wait:
                self._waits.add(wait)
                with anyio.move_on_after(_HELD_SECONDS if output.is_holding else math.inf) as timeout:
                    await anyio.wait_readable(stream)
                if timeout.cancelled_caught:
                    await output.flush()
            self._waits.discard(wait)
