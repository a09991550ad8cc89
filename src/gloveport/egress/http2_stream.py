"""One exchange over HTTP/2: a stream of a connection that it shares with others."""

import contextlib
import functools
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import H2Error

from gloveport.egress.heads import HOP_BY_HOP
from gloveport.egress.http1 import AT_ONCE_BYTES, Body, in_pieces
from gloveport.egress.messages import Headers
from gloveport.egress.upload import Upload
from gloveport.egress.wire import CHUNK_BYTES, Wire
from gloveport.errors import UpstreamError

STREAM_WINDOW = 1 << 19


class Carrier(Protocol):
    """The connection that carries a stream."""

    name: str

    def flush(self) -> None:
        """Write what is to be sent, soon."""

    async def room(self, exchange: "Exchange") -> int:
        """Wait until a piece of a body may be sent, and tell how large it may be; 0 where none may any more."""

    def leave(self, number: int) -> None:
        """Forget a stream."""


class Exchange:
    """One request and its answer (``messages.Answer``), a stream of a connection. It is its own body.

    Attributes:
        number: The stream's.
        fault: Why nothing more will come of it.
    """

    upgraded: Wire | None = None
    ahead = b""
    reason = b""

    def __init__(self, connection: Carrier, protocol: H2Connection, number: int) -> None:
        self.number = number
        self.status = 0
        self.headers: Headers = ()
        self.length: int | None = None
        self.trailers: Headers = ()
        self.fault: UpstreamError | None = None
        self._connection = connection
        self._h2 = protocol
        self._buffer = bytearray()
        self._eaten = 0
        self._upload: Upload | None = None
        self._sent = False
        self._ended = False
        self._news = anyio.Event()

    @property
    def body(self) -> AsyncIterator[bytes]:
        """What comes."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._buffer:
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        piece = bytes(self._buffer[:CHUNK_BYTES])
        del self._buffer[:CHUNK_BYTES]
        self._open_window(len(piece))
        return piece

    async def begin(self, tasks: TaskGroup, body: Body, length: int | None) -> None:
        """Send the request's body and wait for the head of the answer."""
        if body is None:
            self._sent = True
        elif isinstance(body, bytes) and len(body) <= min(
            AT_ONCE_BYTES, self._h2.local_flow_control_window(self.number)
        ):
            self._h2.send_data(self.number, body, end_stream=True)
            self._sent = True
        else:
            pieces = in_pieces(body) if isinstance(body, bytes) else body
            self._upload = Upload(tasks, functools.partial(self._send_all, pieces, length), self._stir)
        self._connection.flush()
        while not self.status:
            await self._wait()

    async def end(self) -> None:
        """Leave it. Its connection carries on."""
        if self._upload is not None:
            await self._upload.stop()
        if not (self._sent and self._ended) and self.fault is None:
            with contextlib.suppress(H2Error):
                self._h2.reset_stream(self.number, ErrorCodes.CANCEL)
                self._connection.flush()
        self._connection.leave(self.number)

    def take_head(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The head of the answer has come."""
        pairs = [*headers]
        lengths = [value for name, value in pairs if name == b"content-length"]
        if len(lengths) > 1:
            self.fail(
                UpstreamError("bad_response", f"{self._connection.name} says more than once where its answer ends.")
            )
            return
        self.status = int(dict(pairs)[b":status"])
        self.headers = forwarded(pairs)
        self.length = int(lengths[0]) if lengths else None
        self._news.set()

    def take_data(self, data: bytes, size: int) -> None:
        """A piece of the body has come, which took ``size`` bytes of the window."""
        self._buffer += data
        self._open_window(size - len(data))
        self._news.set()

    def take_end(self) -> None:
        """All of the answer has come."""
        self._ended = True
        self._news.set()

    def fail(self, fault: UpstreamError) -> None:
        """Nothing more will come."""
        if self.fault is None and not self._ended:
            self.fault = fault
        self._news.set()

    def _stir(self) -> None:
        self._news.set()

    async def _wait(self) -> None:
        """Wait for news."""
        if self._upload is not None and self._upload.fault is not None:
            raise self._upload.fault
        if self.fault is not None:
            raise self.fault
        await self._news.wait()
        self._news = anyio.Event()

    def _open_window(self, size: int) -> None:
        """Let the server send as much more, when it is worth saying."""
        self._eaten += size
        if self._eaten >= STREAM_WINDOW // 4 and not self._ended and self.fault is None:
            self._h2.increment_flow_control_window(self._eaten, self.number)
            self._eaten = 0
            self._connection.flush()

    async def _send_all(self, pieces: AsyncIterator[bytes], length: int | None) -> None:
        sent = 0
        async for piece in pieces:
            view = memoryview(piece)
            while view:
                room = await self._connection.room(self)
                if not room:
                    return
                self._h2.send_data(self.number, bytes(view[:room]))
                self._connection.flush()
                view = view[room:]
            sent += len(piece)
        if length not in {None, sent}:
            raise UpstreamError("bad_request", f"The body of the request has {sent} bytes, and its head said {length}.")
        if self.fault is None:
            self._h2.end_stream(self.number)
            self._connection.flush()
            self._sent = True


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers or trailers as they are passed on."""
    return tuple((bytes(name), bytes(value)) for name, value in headers if name[:1] != b":" and name not in HOP_BY_HOP)
