"""Serves one client over standard input and output. When the input ends, the server ends, and every run with it.

The SDK would read and write in threads: nothing can interrupt the one that reads, and each change of thread costs a
call time. So lines are read and written here, by the event loop. Meanwhile descriptor 0 is empty and 1 is standard
error, so that neither a child process nor a stray print gets at the protocol.
"""

import contextlib
import logging
import os
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from signal import Signals
from types import MappingProxyType, TracebackType
from typing import Any, Self

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage

from gloveport.fairness import compute
from gloveport.limits.untrusted_json import has_many_values
from gloveport.server.fast_path import FastPath, FastTool, Work, line_of, nothing
from gloveport.server.process.signals import on_end_signal
from gloveport.server.transports import jsonrpc_errors
from gloveport.task_group import open_task_group

_CHUNK_BYTES = 1 << 16

_log = logging.getLogger(__name__)


async def serve_stdio(
    server: MCPServer[Any], tools: Mapping[str, FastTool] = MappingProxyType({}), structured: Sequence[str] = ()
) -> list[Signals]:
    """Serve until the client closes its end or a signal comes; return the signals. Takes both streams for good.

    Args:
        server: Whom it serves.
        tools: Those that need no SDK.
        structured: Patterns of the names of clients that get structured content from these.
    """
    with _take_stream(0, "r", os.open(os.devnull, os.O_RDONLY)) as ours, _take_stream(1, "w", os.dup(2)) as theirs:
        answers = _Answers(file=theirs)
        async with open_task_group() as tasks:
            fast_path = FastPath(tools=tools, structured=structured)
            requests = _Requests(file=ours, fast_path=fast_path, answers=answers, tasks=tasks)
            with on_end_signal(requests.end) as came:
                lowlevel = server._lowlevel_server  # noqa: SLF001 - the only way to streams that are not the SDK's own
                await lowlevel.run(requests, answers, lowlevel.create_initialization_options())
    return came


def _take_stream(number: int, mode: str, instead: int) -> FileIO:
    """A standard stream under another number; ``instead`` comes in its place."""
    stream = FileIO(os.dup(number), mode)
    os.dup2(instead, number)
    os.close(instead)
    return stream


@dataclass(kw_only=True)
class _Requests:
    """What the client sends, message by message: a ``ReadStream`` of the SDK. What is no message is answered here."""

    file: FileIO
    fast_path: FastPath
    answers: "_Answers"
    tasks: TaskGroup
    _working: dict[str | int, anyio.CancelScope] = field(default_factory=dict)
    """Calls at work that the SDK knows nothing of."""

    _rest: bytes = b""
    _cut: bool = False
    """Whether the last line was longer than what is read."""

    _ended: bool = False

    def end(self) -> None:
        """Have done with the client: no more is read."""
        self._ended = True
        anyio.notify_closing(self.file)

    async def receive(self) -> SessionMessage | Exception:
        while line := await self._line():
            if self._cut:
                await self._answer(jsonrpc_errors.too_long())
                continue
            if await compute(len(line), has_many_values, line, jsonrpc_errors.MOST_VALUES):
                await self._answer(jsonrpc_errors.too_many())
                continue
            try:
                message = wire.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            except ValueError:  # which would say what the line holds
                _log.warning("a line of the client, of %d bytes, is no message", len(line))
                await self._answer(jsonrpc_errors.answer_to(line))
                continue
            if self._cancels(message):
                continue
            answer = self.fast_path.answer(message)
            if isinstance(answer, tuple):
                await self._answer(*answer)
            elif answer is not None and isinstance(message, wire.JSONRPCRequest):
                self.tasks.start_soon(self._work, message.id, answer)
            else:
                return SessionMessage(message)
        if not self._ended:  # it was the client that has ended: what comes of its requests now is for nobody
            self.answers.end()
        raise anyio.EndOfStream

    async def _work(self, request: str | int, work: Work) -> None:
        """Do it, and answer, unless the client wants it no more."""
        with anyio.CancelScope() as scope:
            self._working[request] = scope
            try:
                line = line_of(request, await work())
            except Exception:  # noqa: BLE001 - whoever waits is told, and the session goes on
                _log.exception("a call has failed")
                line = jsonrpc_errors.render_failure(request)
            finally:
                self._working.pop(request, None)
            await self._answer(line)

    def _cancels(self, message: wire.JSONRPCMessage) -> bool:
        """Whether it ended such a call: then nobody else need hear of it."""
        if not isinstance(message, wire.JSONRPCNotification) or message.method != "notifications/cancelled":
            return False
        request = (message.params or {}).get("requestId")
        scope = self._working.get(request) if isinstance(request, str | int) else None
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def _answer(self, line: bytes | None, afterwards: Callable[[], object] = nothing) -> None:
        """Send an answer, before what is left to do where that holds up nobody."""
        try:
            written = line is None or self.answers.write_now(line)
        finally:
            afterwards()
        if line is not None and not written:
            with contextlib.suppress(anyio.BrokenResourceError):  # then nothing more will come either
                await self.answers.write(line)

    async def _line(self) -> bytes:
        """The next line; what comes after the last newline is one too. Empty at the end.

        Of one that is too long only the beginning comes back.
        """
        parts, rest, size = [], self._rest, 0
        while b"\n" not in rest:
            if size <= jsonrpc_errors.MAX_LINE_BYTES:
                parts.append(rest)
            size += len(rest)
            rest = await self._read()
            if not rest:
                break
        line, newline, self._rest = rest.partition(b"\n")
        self._cut = size + len(line) > jsonrpc_errors.MAX_LINE_BYTES
        return b"".join((*parts, newline)) if self._cut else b"".join((*parts, line, newline))

    async def _read(self) -> bytes:
        with contextlib.suppress(PermissionError):  # a plain file: epoll takes none, and reading it does not wait
            if not self._ended:
                await anyio.wait_readable(self.file)
        return b"" if self._ended else os.read(self.file.fileno(), _CHUNK_BYTES)

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        await self.aclose()


@dataclass(kw_only=True)
class _Answers:
    """What the client is sent, one line a message: a ``WriteStream`` of the SDK."""

    file: FileIO
    _turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _ended: bool = False

    def end(self) -> None:
        """Begin no more lines."""
        self._ended = True

    async def send(self, item: SessionMessage, /) -> None:
        await self.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    def write_now(self, line: bytes) -> bool:
        """Write a short line where there is room for it: whether there was."""
        if self._ended or self._turn.locked() or len(line) > select.PIPE_BUF or not self._has_room():
            return False
        with contextlib.suppress(OSError):  # the client does not read any more
            self.file.write(line)
        return True

    async def write(self, line: bytes) -> None:
        """Write a line, when those before are written.

        Raises:
            BrokenResourceError: The client does not read any more.
        """
        try:
            async with self._turn:
                if self._ended:
                    return
                await self._room()
                with anyio.CancelScope(shield=True):  # half a line would spoil the next one
                    await self._write(memoryview(line))
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def _write(self, data: memoryview) -> None:
        """Write all of it; there is room for the beginning."""
        # The pipe is the client's as well, so it is not ours to make it one that does not block. But where there is
        # room, there is room for this much.
        while data := data[self.file.write(data[: select.PIPE_BUF]) or 0 :]:
            await self._room()

    async def _room(self) -> None:
        if not self._has_room():
            await anyio.wait_writable(self.file)

    def _has_room(self) -> bool:
        poll = select.poll()
        poll.register(self.file, select.POLLOUT)
        return bool(poll.poll(0))

    async def aclose(self) -> None:
        """Nothing to do: every line was written when its ``send`` returned."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        await self.aclose()
