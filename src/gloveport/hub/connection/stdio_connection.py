"""Connects to a server over its standard streams: a process group of its own, and messages, one a line.

The process gets no environment but what is listed here and what the operator gave it. No more than one message of the
size that is allowed is ever held in memory. Whatever it does, it and what it started are gone, within seconds, when the
context has been left; and it is killed when we are.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import IO, NoReturn, TypeAlias

import anyio
from anyio import to_thread
from mcp.shared.message import SessionMessage

from gloveport.errors import UpstreamError
from gloveport.hub.connection.server_command import directory, environment, program
from gloveport.hub.connection.unreadable import read_message
from gloveport.limits.untrusted_json import MOST_VALUES, has_many_values
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent
from gloveport.untrusted_text import printable

_LAUNCH = Path(__file__).with_name("server_launch.py")
_CHUNK_BYTES = 1 << 16
_LARGE_BYTES = 1 << 18
"""A message of more is read in a thread."""

_GRACE_SECONDS = 2.0
"""For each step of the way out: until its input is closed it has to end by itself, then it is asked to, then killed."""

_LAST_WORDS_SECONDS = 0.5
_LOG_PAUSE_SECONDS = 0.05
_LOGGED_LINES, _LOGGED_CHARS = 10, 500
"""Of what comes within one pause."""

_TAIL_BYTES, _TAIL_CHARS = 1 << 16, 1000
"""Far more is kept than shown: more than any form of a secret has."""

Streams: TypeAlias = "tuple[_Received, _Sent]"

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def connect(
    name: str,
    server: Server,
    *,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    clean: Callable[[str], str],
) -> AsyncIterator[Streams]:
    """Start the server, and speak with it until the context is left; then it is ended.

    Args:
        name: What the operator calls it.
        server: With a command.
        environ: The environment, of which it gets nine variables.
        secrets: Values of the variables of ``server.secret_env``.
        clean: Takes secrets out of what it says on its standard error, before anybody sees it.

    Raises:
        UpstreamError: It can't be started; it has ended by itself; or it has sent a message that is too large.
    """
    said = _Said(name, clean)
    process = _start(name, server, environ, secrets)
    # From here to the end that takes care of it there is no await: a cancel between them would leave it alone.
    try:
        sent = _Sent(_pipe(process.stdin))
        async with (
            _open_reader(process, name, said, int(server.answer_bytes)) as received,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(said.read, _pipe(process.stderr))
            tasks.start_soon(_await_end, received, process)
            yield received, sent
            tasks.cancel_scope.cancel()
    except* UpstreamError:
        await _end(process)  # what has broken the protocol, or has gone, gets no time to think
        raise
    finally:
        # What has not spoken yet may be installing itself, and leave half of that behind: it is told at once.
        graces = (_GRACE_SECONDS, _GRACE_SECONDS) if said.spoke else (0, 2 * _GRACE_SECONDS)
        await _end(process, graces)


def _start(
    name: str, server: Server, environ: Mapping[str, str], secrets: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    env = environment(server, environ, secrets)
    path = program(name, server, env)
    launched = (sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), ",".join(env), path, *server.command)
    try:
        return subprocess.Popen(  # noqa: S603 - the operator's own words, and no shell
            launched,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=directory(server, env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = (
            f"{error.strerror}: {quote_sent(directory(server, env))}"
            if isinstance(error, OSError)
            else "a variable holds a NUL"
        )
        raise UpstreamError(
            "server_unavailable",
            f"The server {quote_sent(name)} can't be started: {why}.",
            hint="Look at its command, its directory and its environment in the configuration.",
        ) from error


def _pipe(pipe: IO[bytes] | None) -> int:
    assert pipe is not None  # noqa: S101 - it was asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe.fileno()


@contextlib.asynccontextmanager
async def _open_reader(
    process: "subprocess.Popen[bytes]", name: str, said: "_Said", most: int
) -> "AsyncIterator[_Received]":
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)  # it holds a few times that
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    with contextlib.closing(pipe):
        yield _Received(name=name, said=said, most=most, reader=reader)


async def _await_end(received: "_Received", process: "subprocess.Popen[bytes]") -> None:
    """Wait until there are no more messages; that is a fault, for only we end a connection.

    Raises:
        UpstreamError: Always.
    """
    await received.over.wait()
    if received.fault is not None:
        raise received.fault
    await _wait_ended(process, _LAST_WORDS_SECONDS)
    with anyio.move_on_after(_LAST_WORDS_SECONDS):
        await received.said.over.wait()
    raise UpstreamError(
        "server_gone",
        f"The server {quote_sent(received.name)} has ended{_status(process)}.{received.said.last_words}",
        hint="Try its command by hand.",
    )


@dataclass(eq=False, kw_only=True)
class _Received:
    """What the server says, message by message. It is read when it is asked for: each task between costs a call time.

    Attributes:
        most: Bytes of one message.
        over: Nothing more comes.
        fault: Why, where it has not ended by itself.
    """

    name: str
    said: "_Said"
    most: int
    reader: asyncio.StreamReader
    over: anyio.Event = field(default_factory=anyio.Event)
    fault: UpstreamError | None = None
    _wait_ended: deque[bytes] = field(default_factory=deque)
    """Lines that have come whole."""
    _line: bytearray = field(default_factory=bytearray)
    """Of the one that has not."""

    async def receive(self) -> SessionMessage | Exception:
        """The next one. There is no end: when nothing more comes, the connection is ended from elsewhere."""
        while True:
            while not self._wait_ended:
                await self._read()
            line = self._wait_ended.popleft()
            if line.strip():
                large = len(line) > _LARGE_BYTES
                try:
                    return await to_thread.run_sync(_message, line, self.name) if large else _message(line, self.name)
                except UpstreamError as error:
                    await self._end(error)

    async def _read(self) -> None:
        chunk = await self.reader.read(_CHUNK_BYTES)
        if not chunk:
            await self._end()
        self.said.spoke = True
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            await self._append(piece)
            self._wait_ended.append(bytes(self._line))
            self._line.clear()
        await self._append(rest)

    async def _append(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self.most:
            await self._end(_too_large(self.name, f"{self.most} bytes"))
        self._line += piece

    async def _end(self, fault: UpstreamError | None = None) -> NoReturn:
        self.fault = fault
        self.over.set()
        await anyio.sleep_forever()
        raise AssertionError  # it never comes here

    async def aclose(self) -> None:
        """Nothing to do: the context closes the pipe."""


def _message(line: bytes, name: str) -> SessionMessage | Exception:
    if has_many_values(line):  # to make them would stop everybody for seconds
        raise _too_large(name, f"{MOST_VALUES} values")
    return read_message(line)


def _too_large(name: str, most: str) -> UpstreamError:
    return UpstreamError(
        "answer_too_large",
        f"The server {quote_sent(name)} has sent a message of more than {most}; the connection has ended.",
        hint="Ask it for less: a page, a filter, fewer fields.",
    )


@dataclass(eq=False)
class _Sent:
    """What the server is told, one line a message. When it reads no more, nothing is said: its end is noticed."""

    descriptor: int
    _turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _left: memoryview = field(default_factory=lambda: memoryview(b""))
    """Of a line whose sender has gone meanwhile, perhaps: half a line would spoil the next one."""
    _broken: bool = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write it.

        Raises:
            BrokenResourceError: Some time ago the server has ceased to read.
        """
        if self._broken:
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._turn:
            try:
                await self._write()
                self._left = memoryview(line)
                await self._write()
            except BrokenPipeError:
                self._broken = True

    async def _write(self) -> None:
        while self._left:
            try:
                self._left = self._left[os.write(self.descriptor, self._left) :]
            except BlockingIOError:
                await anyio.wait_writable(self.descriptor)

    async def aclose(self) -> None:
        """Nothing to do: who ends the process closes its input."""


def _status(process: "subprocess.Popen[bytes]") -> str:
    """How it has ended, where that is known; it is not reaped, so its number stays its own."""
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return ""
    if found.si_code == os.CLD_EXITED:
        return f" with status {found.si_status}"
    return f" by the signal {signal.Signals(found.si_status).name}"


async def _end(process: "subprocess.Popen[bytes]", graces: tuple[float, float] | None = None) -> None:
    """Close its input, give it time, ask it to end, give it time, then kill its whole group, and wait for that."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True):
        _close(process.stdin)
        if graces and not await _wait_ended(process, graces[0]):
            _signal(process, signal.SIGTERM)
            await _wait_ended(process, graces[1])
        _signal(process, signal.SIGKILL)  # and what it has left behind
        await _wait_ended(process, _GRACE_SECONDS)
    process.poll()
    _close(process.stdout)
    _close(process.stderr)


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    """To its group. It is not reaped: so its number, which is the group's, is its own, and nobody else can be hit."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _close(pipe: IO[bytes] | None) -> None:
    assert pipe is not None  # noqa: S101 - it was asked for
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


async def _wait_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait for its end, so long at most; it is not reaped."""
    with FileIO(os.pidfd_open(process.pid)) as descriptor, anyio.move_on_after(seconds):
        await anyio.wait_readable(descriptor)
        return True
    return False


@dataclass(eq=False)
class _Said:
    """What a server says on its standard error: a little of it goes to the log, the end of it into what went wrong.

    It is read slowly, so that a flood costs next to nothing, but all of it, so that no server waits for us.
    """

    name: str
    clean: Callable[[str], str]
    spoke: bool = False
    """Whether it has said anything on its standard output."""
    over: anyio.Event = field(default_factory=anyio.Event)
    _tail: bytes = b""
    _line: bytes = b""
    _skips: bool = False
    """Until the line ends of which the beginning was reported already."""

    async def read(self, descriptor: int) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            if _log.isEnabledFor(logging.INFO):
                self._report(chunk)
            await anyio.sleep(_LOG_PAUSE_SECONDS)
        self._report(b"\n")
        self.over.set()

    def _report(self, chunk: bytes) -> None:
        whole, feed, self._line = (self._line + chunk).rpartition(b"\n")
        if feed and self._skips:  # the rest of a line that was reported: its beginning may be the end of a secret
            whole, self._skips = whole.partition(b"\n")[2], False
        if len(self._line) > _TAIL_BYTES:
            whole, feed = (b"", b"") if self._skips else (whole + feed + self._line, b"\n")
            self._line, self._skips = b"", True
        # As a whole first: a secret may go over several lines.
        lines = [line for line in self.clean(whole.decode(errors="replace")).split("\n") if line.strip()]
        for line in lines[:_LOGGED_LINES]:
            _log.info("server %s: %s", self.name, printable(line[:_LOGGED_CHARS]))
        if feed and len(lines) > _LOGGED_LINES:
            _log.info("server %s: %d more lines", self.name, len(lines) - _LOGGED_LINES)

    @property
    def last_words(self) -> str:
        """The end of what it said, for a sentence; empty where it said nothing."""
        # Of the cleaned text far less than was kept: a secret that the cut went through must not be shown in part.
        text = self.clean(self._tail.decode(errors="replace")).strip()[-_TAIL_CHARS:]
        return f" It said: {printable(text)}" if text else ""
