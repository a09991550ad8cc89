"""Connects to a server over its standard streams: a process group of its own, and one message a line.

The process gets only the environment variables of ``server_command`` and of the configuration. At most one message of
the allowed size is held in memory; of a larger one only the ends, which tell whose answer it is. Whatever the process
does, it and what it started have ended seconds after the context was left; and the kernel kills it when we die.
"""

import asyncio
import contextlib
import os
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import IO, NoReturn, TypeAlias

import anyio
from anyio import to_thread
from mcp.shared.message import SessionMessage
from msgspec import Struct, field

from gloveport.errors import UpstreamError
from gloveport.fairness import Pace
from gloveport.hub.connection.server_process import GRACE_SECONDS, end_process, exit_status, start_process, wait_ended
from gloveport.hub.connection.standard_error import StandardError
from gloveport.hub.connection.unreadable import ASK_FOR_LESS, LOOKED_AT, large_answer, read_message
from gloveport.limits.untrusted_json import MOST_VALUES, has_many_values
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent

_CHUNK_BYTES = 1 << 16
_LARGE_BYTES = 1 << 18
"""Larger messages are parsed in a thread."""

_COSTLY_BYTES = 1 << 14
"""After larger messages there are rests: a server may send them without end, also unrequested ones."""

_MOST_SKIPPED = 1 << 26
"""Bytes of a message that is too large. After more the connection ends: the message may have no end."""

_LAST_WORDS_SECONDS = 0.5
_MOST_BLANK, _PAUSE_SECONDS = 64, 0.1
"""Reading pauses after a chunk of more empty lines than this."""

Streams: TypeAlias = "tuple[_MessageReader, _MessageWriter]"


@contextlib.asynccontextmanager
async def connect(
    name: str,
    server: Server,
    *,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    clean: Callable[[str], str],
) -> AsyncIterator[Streams]:
    """Start the server; yield the streams to it; end it when the context is left. It gets nine variables of
    ``environ``, and ``secrets``, the values of ``server.secret_env``. ``clean`` removes secrets from its standard
    error, before that is shown to anybody.

    Raises:
        UpstreamError: The server can't be started, has ended by itself, or has sent a message that is too large.
    """
    standard_error = StandardError(name, clean)
    has_spoken = anyio.Event()
    process = start_process(name, server, environ, secrets)
    # No await before the ``try``: a cancel there would leave the process running.
    try:
        writer = _MessageWriter(_without_blocking(process.stdin))
        async with (
            _open_reader(process, name, standard_error, int(server.answer_bytes), has_spoken) as received,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(standard_error.read, _without_blocking(process.stderr).fileno())
            tasks.start_soon(_await_end, received, process)
            yield received, writer
            tasks.cancel_scope.cancel()
    except* UpstreamError:
        await end_process(process)  # without grace: the server has broken the protocol, or has ended already
        raise
    finally:
        # A server that has sent nothing yet may be installing itself: SIGTERM at once, but more time to tidy up.
        graces = (GRACE_SECONDS, GRACE_SECONDS) if has_spoken.is_set() else (0, 2 * GRACE_SECONDS)
        await end_process(process, graces)


def _without_blocking(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - it was asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe


@contextlib.asynccontextmanager
async def _open_reader(
    process: "subprocess.Popen[bytes]", name: str, standard_error: StandardError, most: int, has_spoken: anyio.Event
) -> "AsyncIterator[_MessageReader]":
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)  # its buffer holds a few times as much
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    with contextlib.closing(pipe):
        yield _MessageReader(name=name, standard_error=standard_error, most=most, reader=reader, has_spoken=has_spoken)


async def _await_end(received: "_MessageReader", process: "subprocess.Popen[bytes]") -> None:
    """Wait until the server's output ends; that is a fault, for only we may end the connection.

    Raises:
        UpstreamError: Always.
    """
    await received.over.wait()
    if received.fault is not None:
        raise received.fault
    await wait_ended(process, _LAST_WORDS_SECONDS)
    with anyio.move_on_after(_LAST_WORDS_SECONDS):
        await received.standard_error.over.wait()
    raise UpstreamError(
        "server_gone",
        f"The server {quote_sent(received.name)} has ended{exit_status(process)}.{received.standard_error.last_words}",
        hint="Try its command by hand.",
    )


class _MessageReader(Struct, eq=False, kw_only=True):
    """The messages of the server. ``receive`` itself reads the pipe: a task between the two would slow each call.

    Attributes:
        most: Most bytes of one message.
        over: Set when nothing more is read.
        fault: Why nothing more is read, if the server's output has not simply ended.
    """

    name: str
    standard_error: StandardError
    most: int
    reader: asyncio.StreamReader
    has_spoken: anyio.Event
    over: anyio.Event = field(default_factory=anyio.Event)
    fault: UpstreamError | None = None
    _lines: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Complete lines, and whether each is whole: of others there are both ends."""
    _line: bytearray = field(default_factory=bytearray)
    """The beginning of an incomplete line, or both ends of what has come of it."""
    _skipped: int = 0
    """Bytes that are missing between the ends."""
    _pace: Pace = field(default_factory=Pace)
    _spent: float = 0.0
    """Seconds that the last message has taken, if it was a costly one."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. When nothing more comes, it never returns: ``_await_end`` ends the connection."""
        if self._spent:  # before the next message, so that an answer is not held back
            spent, self._spent = self._spent, 0.0
            await self._pace.rest(time.monotonic() - spent)
        while True:
            while not self._lines:
                await self._read()
            line, is_whole = self._lines.popleft()
            if line.strip():
                large, began = len(line) > _LARGE_BYTES, time.monotonic()
                excess = "" if is_whole else f"more than {self.most} bytes"
                read = await to_thread.run_sync(_message, line, excess) if large else _message(line, excess)
                if isinstance(read, str):
                    await self._end_too_large(read)
                if len(line) > _COSTLY_BYTES:
                    self._spent = time.monotonic() - began
                return read

    async def _read(self) -> None:
        chunk = await self.reader.read(_CHUNK_BYTES)
        if not chunk:
            await self._end()
        self.has_spoken.set()
        *ended, rest = chunk.split(b"\n")
        blank, began = 0, time.monotonic()
        for piece in ended:
            if not self._line and (not piece or piece.isspace()):
                blank += 1
                continue
            await self._append(piece)
            self._lines.append((bytes(self._line), not self._skipped))
            self._line.clear()
            self._skipped = 0
        await self._append(rest)
        if self._skipped:
            await self._pace.rest(began)
        if blank > _MOST_BLANK:  # else everybody would wait for such a flood in each turn of the event loop
            await anyio.sleep(_PAUSE_SECONDS)

    async def _append(self, piece: bytes) -> None:
        self._line += piece
        if self._skipped or len(self._line) > self.most:
            self._skipped += len(self._line)
            del self._line[LOOKED_AT:-LOOKED_AT]
            self._skipped -= len(self._line)
            if self._skipped > _MOST_SKIPPED:
                await self._end_too_large(f"more than {_MOST_SKIPPED} bytes")

    async def _end_too_large(self, excess: str) -> NoReturn:
        what = f"The server {quote_sent(self.name)} has sent a message of {excess}; the connection has ended."
        await self._end(UpstreamError("answer_too_large", what, hint=ASK_FOR_LESS))

    async def _end(self, fault: UpstreamError | None = None) -> NoReturn:
        self.fault = fault
        self.over.set()
        await anyio.sleep_forever()
        raise AssertionError  # sleep_forever never returns

    async def aclose(self) -> None:
        """Nothing to do: the context closes the pipe."""


def _message(line: bytes, excess: str) -> SessionMessage | Exception | str:
    """Parse a line. ``excess``: in what the message is too large, if it is; returned where that is nobody's answer."""
    if not excess and has_many_values(line):  # to parse them would block the event loop for seconds
        excess = f"more than {MOST_VALUES} values"
    return (large_answer(line, excess) or excess) if excess else read_message(line)


class _MessageWriter(Struct, eq=False):
    """Messages to the server, one a line. A server that has stopped reading is no error here: its end is noticed."""

    pipe: IO[bytes]
    _turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _rest: memoryview = field(default_factory=lambda: memoryview(b""))
    """The rest of a line, written before the next even if its sender was cancelled: half a line would corrupt that."""
    _broken: bool = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message as one line. Raises BrokenResourceError if the server stopped reading some time ago."""
        if self._broken:
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._turn:
            try:
                await self._write()
                self._rest = memoryview(line)
                await self._write()
            except (BrokenPipeError, anyio.ClosedResourceError):
                self._broken = True

    async def _write(self) -> None:
        while self._rest:
            if self.pipe.closed:  # while others wrote; its number may be another file's by now
                raise BrokenPipeError
            try:
                self._rest = self._rest[os.write(self.pipe.fileno(), self._rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self.pipe.fileno())

    async def aclose(self) -> None:
        """Nothing to do: ``end_process`` closes the pipe."""
