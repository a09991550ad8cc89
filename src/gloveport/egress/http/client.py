"""HTTP/1.1 client: sends a request on a connection and reads its response. The end of a body is never guessed."""

import contextlib
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from gloveport.egress.http.bodies import BodyReader, encode_chunk
from gloveport.egress.http.heads import (
    HEAD_BYTES,
    HOP_BY_HOP,
    WITHOUT_BODY,
    Framing,
    Headers,
    Malformed,
    Outbound,
    find_end,
    join_values,
    options_of,
    read_response,
    write_request,
)
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import CHUNK_BYTES, SocketStream
from gloveport.errors import UpstreamError
from gloveport.model.proxy import Proxy

Body: TypeAlias = bytes | AsyncIterator[bytes] | None

AT_ONCE_BYTES = 1 << 14
"""A body up to this size is sent with its head; it fits into the kernel's buffer, so no server can block it."""

_HEAD_LINES = 1024
_VERSION = b"HTTP/1."
_NO_BODY, _ENDLESS = Framing(0, chunked=False), Framing(None, chunked=False)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests declare an empty body by ``content-length: 0`` (RFC 9110, 8.6)."""


class UnansweredError(UpstreamError):
    """The connection broke before the first byte of an answer: perhaps the server had closed it before the request."""


class ClientConnection:
    """A connection to the server of a route.

    Attributes:
        proxy: The settings of the proxy through which it goes; None for none.
        tls_context: The context by which its server was verified; None without TLS.
        used: Whether it has carried an exchange.
        idle_since: When its last exchange ended, by the monotonic clock.
    """

    def __init__(self, wire: SocketStream, route: Route, proxy: Proxy | None = None) -> None:
        self.route = route
        self.proxy = proxy
        self.tls_context = wire.tls_context
        self.used = False
        self.idle_since = math.inf
        self._wire = wire
        self._host = route.authority.encode("ascii")
        self._name = f"{route.host}:{route.port}"

    async def exchange(
        self, tasks: TaskGroup, out: Outbound, body: Body, length: int | None, hop: Headers = ()
    ) -> "Response":
        """Send a request, and wait for the head of its response. ``tasks`` runs the task that sends a streamed body,
        whose ``length`` may be known. The framing headers of ``out`` are left out; ``hop`` has headers for this
        connection alone, such as those of an upgrade.

        Raises:
            UpstreamError: ``bad_request``, ``bad_response`` or ``upstream_broke_off``; ``UnansweredError`` before
                the first byte of an answer.
        """
        self.used = True
        response = Response(self._wire, self._name, out.method, hop)
        try:
            await response.begin(tasks, self._head(out, body, length, hop), body, length)
        except BaseException:
            await response.end()
            raise
        return response

    def is_ready(self) -> bool:
        """Whether the connection can carry one more request, as far as we can see."""
        return self._wire.is_quiet()

    def close(self) -> None:
        """Close it."""
        self._wire.close()

    def _head(self, out: Outbound, body: Body, length: int | None, hop: Headers) -> bytes:
        """Make the head. Only this method makes framing headers of requests."""
        if out.method == "CONNECT":
            raise UpstreamError("bad_request", "CONNECT asks for a tunnel, and this is no proxy.")
        headers = [(b"host", self._host)]
        headers += [header for header in out.headers if header[0] not in HOP_BY_HOP]
        headers += hop
        if isinstance(body, bytes):
            headers.append((b"content-length", b"%d" % len(body)))
        elif body is not None:
            headers.append(
                (b"transfer-encoding", b"chunked") if length is None else (b"content-length", b"%d" % length)
            )
        elif out.method in _WITH_BODY:
            headers.append((b"content-length", b"0"))
        try:
            return write_request(out.method, out.target, tuple(headers))
        except ValueError:
            raise UpstreamError("bad_request", "The request has characters that HTTP does not allow.") from None


class Response:
    """A response. It is an iterator of its body's pieces of at most 64 KiB, without transfer coding.

    Attributes:
        status: 101, or 200 and above.
        headers: The headers without the hop-by-hop ones.
        length: The value of ``content-length``. For ``HEAD`` and 304 it is that of a body which is not sent.
        upgraded: The connection after status 101; there is no body then.
        ahead: Data that was received on the upgraded connection already.
    """

    def __init__(self, wire: SocketStream, name: str, method: str, hop: Headers) -> None:
        self.status, self.reason = 0, b""
        self.headers: Headers = ()
        self.length: int | None = None
        self.upgraded: SocketStream | None = None
        self.ahead = b""
        self._wire = wire
        self._name = name
        self._method = method
        self._upgrade = join_values(hop, b"upgrade")
        self._buffer = bytearray()
        self._body = BodyReader(framing=_ENDLESS)
        self._upload: _Upload | None = None
        self._sent = self._persists = self._has_answered = False

    @property
    def trailers(self) -> Headers:
        """The trailer fields after the last chunk."""
        return _drop_hop_by_hop(self._body.trailers)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            with self._refuse_malformed():
                piece = self._body.take(self._buffer)
            if piece:
                if self._buffer:
                    await checkpoint()  # a fast server must not keep other tasks from running
                return piece
            if self._body.ended:
                raise StopAsyncIteration
            if not await self._receive():
                if not self._body.finish():
                    raise self._broke_off("it hung up")
                if self._wire.torn:  # without close_notify, anybody on the way may have ended the connection
                    raise self._broke_off("it hung up without ending its TLS, so this may not be all")

    async def begin(self, tasks: TaskGroup, head: bytes, body: Body, length: int | None) -> None:
        """Send the request and wait for the head of the response."""
        if body is None or (isinstance(body, bytes) and len(body) <= AT_ONCE_BYTES):
            self._sent = await self._send(head + (body or b""))
        else:
            pieces = split(body) if isinstance(body, bytes) else body
            size = len(body) if isinstance(body, bytes) else length
            self._upload = _Upload(tasks, functools.partial(self._send_all, head, pieces, size), self._wire.close)
        await self._read_head()

    async def end(self) -> bool:
        """End the exchange; return whether the connection can carry another, and close it if not."""
        if self._upload is not None:
            await self._upload.stop()
        if self._sent and self._body.ended and self._persists and not self._buffer:
            return True
        self._wire.close()
        return False

    async def _send(self, data: bytes) -> bool:
        """Send data; return whether it was sent."""
        try:
            await self._wire.send(data)
        except OSError:
            return False  # the server may have answered before it closed the connection: read that answer
        return True

    async def _send_all(self, head: bytes, pieces: AsyncIterator[bytes], length: int | None) -> None:
        if not await self._send(head):
            return
        sent = 0
        async for piece in pieces:
            sent += len(piece)
            if length is not None and sent > length:
                break
            if not await self._send(piece if length is not None else encode_chunk(piece)):
                return
        if length is None:
            self._sent = await self._send(b"0\r\n\r\n")
        elif sent == length:
            self._sent = True
        else:
            raise UpstreamError("bad_request", "The body of the request is not as long as it said.")

    async def _read_head(self) -> None:
        room = HEAD_BYTES
        while True:
            end = await self._find_end(room)
            room -= end
            with self._refuse_malformed():
                head = read_response(bytes(self._buffer[:end]))
            del self._buffer[:end]
            if head.status >= 200 or head.status == 101:
                break
        self.status, self.reason = head.status, head.reason
        self.headers, self.length = _drop_hop_by_hop(head.headers), head.framing.length
        if self.status == 101:
            if not self._upgrade or join_values(head.headers, b"upgrade").lower() != self._upgrade:
                why = "it upgrades to what nobody has asked for"
                raise UpstreamError("bad_response", f"The answer of {self._name} is refused: {why}.")
            self._body, self.upgraded, self.ahead = BodyReader(framing=_NO_BODY), self._wire, bytes(self._buffer)
            return
        bodyless = self._method == "HEAD" or self.status in WITHOUT_BODY
        self._body = BodyReader(framing=_NO_BODY if bodyless else head.framing)
        self._persists = head.version == b"1.1" and b"close" not in options_of(head.headers)
        self._persists = self._persists and self._body.framing != _ENDLESS

    async def _find_end(self, room: int) -> int:
        """Receive until a head is complete; return where it ends."""
        searched_bytes = 0
        with self._refuse_malformed():
            while not (end := find_end(self._buffer, _HEAD_LINES, searched_bytes)):
                searched_bytes = len(self._buffer)
                if len(self._buffer) > room:
                    raise Malformed("its heads are larger than 64 KiB")
                if not await self._receive():
                    raise self._broke_off("it hung up")
                if not self._buffer.startswith(_VERSION[: len(self._buffer)]):
                    raise Malformed("it is no HTTP/1.1")
        return end

    @contextlib.contextmanager
    def _refuse_malformed(self) -> Iterator[None]:
        try:
            yield
        except Malformed as error:
            raise UpstreamError("bad_response", f"The answer of {self._name} is refused: {error}.") from None

    async def _receive(self) -> bool:
        try:
            data = await self._wire.receive()
        except OSError as error:
            raise self._broke_off(error.strerror or str(error)) from error
        self._has_answered = self._has_answered or bool(data)
        self._buffer += data
        return bool(data)

    def _broke_off(self, why: str) -> Exception:
        if self._upload is not None and self._upload.fault is not None:
            return self._upload.fault
        kind = UpstreamError if self._has_answered else UnansweredError
        return kind("upstream_broke_off", f"{self._name} broke off: {why}.")


class _Upload:
    """Sends a body in its own task, which is stopped if the server answers before it has read the whole body.

    Attributes:
        fault: The exception of the body's source. Errors of the connection are reported by reading the response.
    """

    def __init__(self, tasks: TaskGroup, send: Callable[[], Awaitable[None]], give_up: Callable[[], None]) -> None:
        self.fault: Exception | None = None
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        tasks.start_soon(self._run, send, give_up)

    async def stop(self) -> None:
        """Stop the task, and wait until it has ended, so that it does not read from the body any more."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _run(self, send: Callable[[], Awaitable[None]], give_up: Callable[[], None]) -> None:
        try:
            with self._scope:
                await send()
        except Exception as fault:  # noqa: BLE001 - it is raised where the answer is awaited
            self.fault = fault
            give_up()  # wakes up whoever waits for an answer, which can't come now
        finally:
            self._ended.set()


async def split(body: bytes) -> AsyncIterator[bytes]:
    """Split data into pieces of at most 64 KiB."""
    view = memoryview(body)
    for start in range(0, len(view), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])


def _drop_hop_by_hop(headers: Headers) -> Headers:
    dropped = HOP_BY_HOP | options_of(headers)
    return tuple([header for header in headers if header[0] not in dropped])
