"""HTTP/1.1 as a client: one request at a time on a connection, and what its answer may look like.

Where an answer ends is never guessed. What two readers could read in two ways (RFC 9112, 11.2) is refused before h11
sees it, because h11 is more patient than a proxy may be.
"""

import functools
import re
from collections.abc import AsyncIterator, Iterable
from typing import TypeAlias

import h11
from anyio.abc import TaskGroup

from gloveport.egress.messages import Headers, Outbound, Route
from gloveport.egress.upload import Upload
from gloveport.egress.wire import CHUNK_BYTES, Wire
from gloveport.errors import UpstreamError

Body: TypeAlias = bytes | AsyncIterator[bytes] | None

HEAD_BYTES = 1 << 16
"""All heads before a body together: also those of answers 1xx."""

AT_ONCE_BYTES = 1 << 14
"""A body up to this size goes out with its head; the kernel's buffer has room for it, so no server can block it."""

FRAMING = frozenset({b"content-length", b"transfer-encoding", b"trailer", b"host"})
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"}
    | {b"te", b"upgrade", *FRAMING}
)
"""What each connection says for itself (RFC 9110, 7.6.1)."""

_AMBIGUOUS = re.compile(rb"\r(?!\n)|(?<!\r)\n|\x00|\n[ \t]")
_FRAMED_BY = re.compile(rb"\n(content-length|transfer-encoding):[ \t]*([^\r]*?)[ \t]*\r", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_VERSION = b"HTTP/1."
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests say that they have no body (RFC 9110, 8.6)."""


class Unheard(UpstreamError):  # noqa: N818 - an UpstreamError that says when
    """It broke off before the first byte of an answer: perhaps the server had hung up before the request came."""


class Connection:
    """A connection to the server of a route.

    Attributes:
        used: Whether it has carried an exchange.
        idle_since: When it carried something last, by the monotonic clock; ``None`` while it does.
    """

    def __init__(self, wire: Wire, route: Route) -> None:
        self.route = route
        self.used = False
        self.idle_since: float | None = None
        self._wire = wire
        self._host = route.authority.encode("ascii")
        self._name = f"{route.host}:{route.port}"
        self._protocol = h11.Connection(h11.CLIENT, HEAD_BYTES)

    async def exchange(
        self, tasks: TaskGroup, out: Outbound, body: Body, length: int | None, hop: Headers = ()
    ) -> "Exchange":
        """Send a request, and wait for the head of its answer.

        Args:
            tasks: Where a long body is sent.
            out: Its head; whatever in it is about framing is left out.
            body: All of it, or piece by piece.
            length: Of a body that comes piece by piece, in bytes, where it is known.
            hop: Headers for this connection alone, as an upgrade has them.

        Raises:
            UpstreamError: ``bad_request``, ``bad_response`` or ``upstream_broke_off``; ``Unheard`` before the first
                byte of an answer.
        """
        if self.used:
            self._protocol.start_next_cycle()
        self.used, self.idle_since = True, None
        exchange = Exchange(self._wire, self._protocol, self._name)
        try:
            await exchange.begin(tasks, self._head(out, body, length, hop), body)
        except BaseException:
            await exchange.end()
            raise
        return exchange

    def is_ready(self) -> bool:
        """Whether it can carry one more, as far as can be told."""
        return self._wire.is_quiet()

    def close(self) -> None:
        """Close it."""
        self._wire.close()

    def _head(self, out: Outbound, body: Body, length: int | None, hop: Headers) -> bytes:
        """Make the head. Its framing is made here and nowhere else."""
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
            return self._protocol.send(h11.Request(method=out.method, target=out.target, headers=headers))
        except (h11.LocalProtocolError, UnicodeError):
            # From None: its text holds the header, and that may be a credential.
            raise UpstreamError("bad_request", "The request has characters that HTTP does not allow.") from None


class Exchange:
    """One request and its answer (``messages.Answer``). It is its own body."""

    def __init__(self, wire: Wire, protocol: h11.Connection, name: str) -> None:
        self.status = 0
        self.reason = b""
        self.headers: Headers = ()
        self.length: int | None = None
        self.trailers: Headers = ()
        self.upgraded: Wire | None = None
        self.ahead = b""
        self._wire = wire
        self._protocol = protocol
        self._name = name
        self._upload: Upload | None = None
        self._heard = False
        self._cut = False
        self._ended = False

    @property
    def body(self) -> AsyncIterator[bytes]:
        """What comes."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            event = self._event()
            if type(event) is h11.Data:
                return bytes(event.data)
            if type(event) is h11.EndOfMessage:
                self._ended = True
                self.trailers = _forwarded(event.headers)
            else:
                self._protocol.receive_data(await self._receive())
        raise StopAsyncIteration

    async def begin(self, tasks: TaskGroup, head: bytes, body: Body) -> None:
        """Send the request and wait for the head of its answer."""
        if body is None:
            await self._send(head + self._protocol.send(h11.EndOfMessage()))
        elif isinstance(body, bytes) and len(body) <= AT_ONCE_BYTES:
            data = self._protocol.send(h11.Data(data=body))
            await self._send(head + data + self._protocol.send(h11.EndOfMessage()))
        else:
            pieces = in_pieces(body) if isinstance(body, bytes) else body
            self._upload = Upload(tasks, functools.partial(self._send_all, head, pieces), self._wire.close)
        await self._read_head()

    async def end(self) -> bool:
        """Leave it, and tell whether its connection can carry another. One that can't is closed."""
        if self._upload is not None:
            await self._upload.stop()
        protocol = self._protocol
        done = self._ended and protocol.our_state is h11.DONE and protocol.their_state is h11.DONE
        if done and not protocol.trailing_data[0]:
            return True
        self._wire.close()
        return False

    async def _send(self, data: bytes) -> bool:
        """Send it, and tell whether it was sent."""
        try:
            await self._wire.send(data)
        except OSError:
            return False  # the server may have answered before it hung up: what it said is still to be read
        return True

    async def _send_all(self, head: bytes, pieces: AsyncIterator[bytes]) -> None:
        if not await self._send(head):
            return
        try:
            async for piece in pieces:
                if not await self._send(self._protocol.send(h11.Data(data=piece))):
                    return
            await self._send(self._protocol.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as error:
            raise UpstreamError(
                "bad_request", f"The body of the request is not as long as it said: {error}."
            ) from error

    async def _read_head(self) -> None:
        data = bytearray()
        room = HEAD_BYTES
        while True:
            end = await self._find_end(data, room)
            room -= end
            event = self._read(bytes(data[:end]))
            del data[:end]
            if type(event) is h11.Response or event.status_code == 101:
                break
        self.status, self.reason = event.status_code, bytes(event.reason)
        self.headers = _forwarded(event.headers)
        if self.status == 101:
            if [value.lower() for name, value in event.headers if name == b"upgrade"] != [b"websocket"]:
                raise self._bad("it upgrades to something else")
            self._ended, self.upgraded, self.ahead = True, self._wire, bytes(data)
            return
        if data:
            self._protocol.receive_data(bytes(data))
        else:
            self._ended = type(self._event()) is h11.EndOfMessage  # as after HEAD: nobody need read what is empty

    async def _find_end(self, data: bytearray, room: int) -> int:
        """Receive until a head is whole, and tell where it ends."""
        start = 0
        while (end := data.find(b"\r\n\r\n", start)) < 0:
            start = max(0, len(data) - 3)
            if len(data) > room:
                raise self._bad("its head is larger than 64 KiB")
            data += await self._receive()
            if self._cut:
                raise self._broken("it hung up")
            if not data.startswith(_VERSION[: len(data)]):
                raise self._bad("it is no HTTP/1.1")
        return end + 4

    def _read(self, head: bytes) -> h11.Response | h11.InformationalResponse:
        """Read one head, and refuse what another reader could read in another way."""
        if _AMBIGUOUS.search(head):
            raise self._bad("its head has a folded line, a NUL, or a line that does not end in CR LF")
        framing = [(name.lower(), value) for name, value in _FRAMED_BY.findall(head)]
        if len(framing) > 1:
            raise self._bad("it says more than once where it ends")
        self._protocol.receive_data(head)
        event = self._event()
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise self._bad("its head is no HTTP/1.1")
        for name, value in framing:
            if name == b"transfer-encoding" and event.http_version != b"1.1":
                raise self._bad("HTTP/1.0 has no transfer coding")
            if name == b"content-length":
                if _LENGTH.fullmatch(value) is None:
                    raise self._bad("its content-length is no number")
                self.length = int(value)
        return event

    def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError:
            # From None, and without its text: that holds what the server sent, and nobody has scrubbed it.
            fault = self._broken("it hung up") if self._cut else self._bad("it is no valid HTTP/1.1")
            raise fault from None

    async def _receive(self) -> bytes:
        try:
            data = await self._wire.receive()
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error
        self._heard = self._heard or bool(data)
        self._cut = not data
        return data

    def _bad(self, why: str) -> UpstreamError:
        return UpstreamError("bad_response", f"The answer of {self._name} is refused: {why}.")

    def _broken(self, why: str) -> Exception:
        if self._upload is not None and self._upload.fault is not None:
            return self._upload.fault
        message = f"{self._name} broke off: {why}."
        return UpstreamError("upstream_broke_off", message) if self._heard else Unheard("upstream_broke_off", message)


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """Give it in pieces of at most 64 KiB."""
    view = memoryview(body)
    for start in range(0, len(view), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])


def _forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Give what is not for this connection alone."""
    pairs = [*headers]
    dropped = HOP_BY_HOP
    for name, value in pairs:
        if name == b"connection":
            dropped = dropped.union(option.strip() for option in value.lower().split(b","))
    return tuple(pair for pair in pairs if pair[0] not in dropped)
