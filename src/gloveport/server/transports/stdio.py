"""Serves one client over standard input and output. When the input ends, the server ends, and every run with it.

The SDK would read and write in threads: nothing can interrupt the one that reads, and each switch of threads slows a
call. So the event loop reads and writes the lines here. Meanwhile descriptor 0 is empty and 1 is standard error, so
that neither a child process nor a stray print interferes with the protocol.
"""

import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from io import FileIO
from signal import Signals
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct, field

from gloveport.errors import find_exhaustion
from gloveport.fairness import compute
from gloveport.late_module import import_now, late_module
from gloveport.limits.untrusted_json import has_many_values
from gloveport.server.fast_path import ClientMessage, FastPath, LineWork, line_of, nothing
from gloveport.server.process.signals import on_end_signal
from gloveport.server.rendering.run_reply import reply_error
from gloveport.server.startup import Startup
from gloveport.server.transports import jsonrpc_errors
from gloveport.server.transports.jsonrpc_messages import parse_message
from gloveport.server.transports.line_writer import LineWriter
from gloveport.server.transports.session_beginning import SessionBeginning
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from gloveport.server.transports import sdk_session
else:
    sdk_session = late_module("gloveport.server.transports.sdk_session")

_CHUNK_BYTES = 1 << 16
_NO_HOST = "nothing can be run on this host until it is repaired and this server is started again"
_NO_SDK = "this call was not begun: what it needs of the server could not be loaded"
_log = logging.getLogger(__name__)


async def serve_stdio(startup: Startup, structured: Sequence[str] = ()) -> list[Signals]:
    """Serve until the client closes its end or a signal comes; return the signals. Takes both streams for good.

    The handshake is answered at once, calls when the host is known to be sound, and messages that need the SDK when the
    SDK is loaded. Clients whose names match a pattern of ``structured`` get structured content from the fast path.
    """
    with _take_stream(0, "r", os.open(os.devnull, os.O_RDONLY)) as ours, _take_stream(1, "w", os.dup(2)) as theirs:
        answers = LineWriter(file=theirs)
        async with open_task_group() as tasks:
            fast_path = FastPath(structured=structured, notify=answers.send_line)
            beginning = SessionBeginning(fast_path=fast_path, startup=startup)
            requests = _Requests(
                file=ours, fast_path=fast_path, answers=answers, tasks=tasks, startup=startup, beginning=beginning
            )
            with anyio.CancelScope() as scope, on_end_signal(partial(requests.stop, scope)) as signals:
                await requests.serve()
    return signals


def _take_stream(number: int, mode: str, instead: int) -> FileIO:
    """Move a standard stream to another descriptor, and put ``instead`` in its place."""
    stream = FileIO(os.dup(number), mode)
    os.dup2(instead, number)
    os.close(instead)
    return stream


class _Requests(Struct, kw_only=True):
    """Reads the client's lines, and answers those that need no SDK."""

    file: FileIO
    fast_path: FastPath
    answers: LineWriter
    tasks: TaskGroup
    startup: Startup
    beginning: SessionBeginning
    _working: dict[str | int, anyio.CancelScope] = field(default_factory=dict)
    """Calls in progress that the SDK does not know of."""

    _is_handed_over: bool = False
    _rest: bytes = b""
    _cut: bool = False
    """Whether the last line was too long."""

    _ended: bool = False

    def end(self) -> None:
        """Stop reading."""
        self._ended = True
        anyio.notify_closing(self.file)

    def stop(self, scope: anyio.CancelScope) -> None:
        """Stop reading; cancel ``scope`` too, unless the SDK has taken over."""
        self.end()
        if not self._is_handed_over:
            scope.cancel()

    async def serve(self) -> None:
        """Serve until the client closes its end."""
        try:
            line, server = await self._wait_for_sdk()
        except anyio.EndOfStream:
            return
        self._is_handed_over = True
        asked: set[str | int] = set()
        requests = sdk_session.Requests(
            next_line=self._next_line,
            write=self.answers.send_line,
            end=self.end,
            asked=asked,
            replayed=[*self.beginning.handshake, line],
        )
        answers = sdk_session.Answers(write=self.answers.send_line, answered=self.beginning.greeted, asked=asked)
        await sdk_session.serve_by_sdk(server, requests, answers)

    async def _wait_for_sdk(self) -> "tuple[bytes, MCPServer[Any]]":
        """Answer lines until one is for the SDK, and load it. Raises EndOfStream if there are no more lines."""
        while True:
            line = await self._next_line()
            try:
                return line, await to_thread.run_sync(self._make_server)
            except OSError as error:
                if (exhausted := find_exhaustion(error)) is None:
                    raise
                _log.warning("the MCP SDK was not loaded: %s", error)
                await self._refuse(parse_message(line), line, _NO_SDK, "\nhint: ".join(exhausted))

    def _make_server(self) -> "MCPServer[Any]":
        """Load the SDK, and make its server."""
        if self.startup.make_server is None:
            raise RuntimeError("a server that is sound can be made")
        import_now("gloveport.server.transports.sdk_session")
        return self.startup.make_server()

    async def _next_line(self) -> bytes:
        """Answer lines until one is for the SDK, and return that. Raises EndOfStream if there are no more lines."""
        while line := await self._line():
            if self._cut:
                await self._answer(jsonrpc_errors.TOO_LONG)
            elif await compute(len(line), has_many_values, line, jsonrpc_errors.MOST_VALUES):
                await self._answer(jsonrpc_errors.TOO_MANY)
            elif not await self._take(parse_message(line), line):
                return line
        if not self._ended:  # the client has closed its end, so nobody reads further answers
            self.answers.end()
        raise anyio.EndOfStream

    async def _take(self, message: ClientMessage | None, line: bytes) -> bool:
        """Answer a message, or start the work that does; return False if the SDK has to answer."""
        if message is not None:
            if self._cancels(message):
                return True
            self.fast_path.note_handshake(message)
            answer = None if self._is_handed_over else self.beginning.answer(message, line)
            if answer is not None:
                await self._give(message, answer)
                return True
        await self.startup.wait_settled()
        if self.startup.refusal:
            await self._refuse(message, line, _NO_HOST, self.startup.refusal)
            return True
        if message is None:
            return False
        self.beginning.has_called |= message.method == "tools/call"
        self.fast_path.tools = self.startup.tools
        found = self.fast_path.answer(message)
        if isinstance(found, tuple):
            await self._answer(*found)
        elif found is not None:
            await self._give(message, found)
        return found is not None

    async def _give(self, message: ClientMessage, answer: bytes | LineWork) -> None:
        if isinstance(answer, bytes):
            await self._answer(answer or None)
        elif message.id is not None:
            self.tasks.start_soon(self._work, message.id, answer)

    async def _refuse(self, message: ClientMessage | None, line: bytes, what: str, why: str) -> None:
        """Answer a message that can't be served."""
        if message is None:
            await self._answer(jsonrpc_errors.answer_to(line))
        elif message.id is not None and message.method == "tools/call":
            reply = reply_error(what, why)
            fields = {**reply.fields(reads_structured=False), "resultType": "complete"}  # required in 2026-07-28
            await self._answer(line_of(message.id, fields))
        elif message.id is not None:
            await self._answer(jsonrpc_errors.render_refusal(message.id, why))

    async def _work(self, request: str | int, work: Callable[[], Awaitable[bytes]]) -> None:
        """Do the work of a call and answer it, unless the client cancels the call."""
        with anyio.CancelScope() as scope:
            self._working[request] = scope
            try:
                line = await work()
            except Exception:  # noqa: BLE001 - the client gets an error, and the session goes on
                _log.exception("a call has failed")
                line = jsonrpc_errors.render_failure(request)
            finally:
                self._working.pop(request, None)
            await self._answer(line)

    def _cancels(self, message: ClientMessage) -> bool:
        """Cancel the call that a message names, if it is one of ``_working``; return whether it was."""
        if message.id is not None or message.method != "notifications/cancelled":
            return False
        request = message.params.get("requestId")
        scope = self._working.get(request) if isinstance(request, str | int) else None
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def _answer(self, line: bytes | None, afterwards: Callable[[], object] = nothing) -> None:
        """Send an answer; then do what comes after it, or before it if the pipe is full."""
        try:
            written = line is None or self.answers.write_now(line)
        finally:
            afterwards()
        if line is not None and not written:
            with contextlib.suppress(anyio.BrokenResourceError):  # the client will send nothing more either
                await self.answers.write(line)

    async def _line(self) -> bytes:
        """Read the next line; a rest without a newline is one too. Empty at the end.

        Of a line that is too long only the beginning is returned.
        """
        parts, rest, size = [], self._rest, 0
        if b"\n" in rest:  # several lines came at once: let other tasks run in between
            await checkpoint()
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
        # PermissionError: epoll refuses plain files, which never block. ClosedResourceError: ``end`` was called.
        with contextlib.suppress(PermissionError, anyio.ClosedResourceError):
            if not self._ended:
                await anyio.wait_readable(self.file)
        return b"" if self._ended else os.read(self.file.fileno(), _CHUNK_BYTES)
