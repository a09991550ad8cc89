"""Controls a running program: its standard input or its terminal, and signals to it."""

import contextlib
import fcntl
import os
import signal
import struct
import termios
from io import FileIO

import anyio
from msgspec import Struct, field

_PROCESS_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9


class Console(Struct, eq=False, kw_only=True):
    """The near end of one program.

    Attributes:
        input: What it reads comes from here. It does not block.
        output: What it writes comes here, for whoever runs it without a sink. It does not block.
        errors: The same of what it writes to standard error; nothing where it has a terminal.
        stops: Readable when the program was stopped, where it is a person's.
        process: Process descriptor of its first process.
        is_terminal: Whether ``input`` is its terminal, by which it is read as well.
    """

    input: FileIO
    output: FileIO
    errors: FileIO
    stops: FileIO | None
    process: FileIO
    is_terminal: bool
    _turn: "anyio.Lock" = field(default_factory=lambda: anyio.Lock())  # noqa: PLW0108 - not before it is needed

    async def write(self, data: bytes) -> None:
        """Have it read this. Waits where it reads slowly; what others write comes before or after.

        Raises:
            BrokenPipeError: It reads nothing more.
        """
        async with self._turn:
            left = memoryview(data)
            while left:
                if self.input.closed:
                    raise BrokenPipeError
                try:
                    left = left[os.write(self.input.fileno(), left) :]
                except BlockingIOError:
                    try:
                        await anyio.wait_writable(self.input)
                    except anyio.ClosedResourceError as error:  # it was closed meanwhile
                        raise BrokenPipeError from error
                except OSError as error:  # a terminal that nobody has open says EIO
                    raise BrokenPipeError from error

    def close_input(self) -> None:
        """Let it read the end. Of a terminal one writes the character that says so."""
        if not self.is_terminal:
            close(self.input)

    def signal(self, number: int) -> None:
        """Send a signal to its process group; to its first process alone where the kernel knows no better."""
        with contextlib.suppress(ProcessLookupError):
            try:
                signal.pidfd_send_signal(self.process.fileno(), number, None, _PROCESS_GROUP)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                signal.pidfd_send_signal(self.process.fileno(), number)

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal another size, of which it is told."""
        if self.is_terminal:
            fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def close(file: FileIO) -> None:
    """Close what somebody may wait for: they are told. Else the event loop would take the next file for it that gets
    the same number, and that would fail.
    """
    if not file.closed:
        anyio.notify_closing(file)
        file.close()
