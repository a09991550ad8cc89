"""Controls a running program: its standard input or terminal, and signals to it."""

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
    """The host's end of one program.

    Attributes:
        input: The program reads what is written here. It does not block.
        output: The program's output, if it runs without a sink. It does not block.
        errors: Likewise its standard error; None if it has a terminal.
        stops: Readable when a person's program was stopped.
        process: Process descriptor of its first process.
        is_terminal: Whether ``input`` is its terminal, from which its output is read too.
    """

    input: FileIO
    output: FileIO
    errors: FileIO
    stops: FileIO | None
    process: FileIO
    is_terminal: bool
    _turn: "anyio.Lock" = field(default_factory=lambda: anyio.Lock())  # noqa: PLW0108 - not before it is needed

    async def write(self, data: bytes) -> None:
        """Write to its input. Waits if it reads slowly; concurrent writes do not mix.

        Raises:
            BrokenPipeError: It reads nothing more.
        """
        async with self._turn:
            remaining_data = memoryview(data)
            while remaining_data:
                if self.input.closed:
                    raise BrokenPipeError
                try:
                    remaining_data = remaining_data[os.write(self.input.fileno(), remaining_data) :]
                except BlockingIOError:
                    try:
                        await anyio.wait_writable(self.input)
                    except anyio.ClosedResourceError as error:  # it was closed meanwhile
                        raise BrokenPipeError from error
                except OSError as error:  # EIO: no process has the terminal open
                    raise BrokenPipeError from error

    def close_input(self) -> None:
        """Close its input. A terminal stays open: its end is a character that is written to it."""
        if not self.is_terminal:
            close(self.input)

    def signal(self, number: int) -> None:
        """Send a signal to its process group, or only to its first process on older kernels."""
        if self.process.closed:  # it has ended, though its command may not have
            return
        with contextlib.suppress(ProcessLookupError):
            try:
                signal.pidfd_send_signal(self.process.fileno(), number, None, _PROCESS_GROUP)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                signal.pidfd_send_signal(self.process.fileno(), number)

    def resize(self, rows: int, columns: int) -> None:
        """Resize its terminal, which notifies the program."""
        if self.is_terminal and not self.input.closed:
            fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def close(file: FileIO) -> None:
    """Close a file on which a task may wait: the task is notified. Else the event loop would mistake the next file with
    the same number for it, and fail.
    """
    if not file.closed:
        anyio.notify_closing(file)
        file.close()
