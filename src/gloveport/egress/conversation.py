"""The program's side of HTTP: requests that come on one connection, and the answers to them, one after the other."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http import HTTPStatus

import anyio
import h11
from anyio.lowlevel import checkpoint

from gloveport.egress.messages import Headers
from gloveport.egress.wire import Wire
from gloveport.errors import UpstreamError

HEAD_BYTES = 64 * 1024
HEAD_LINES = 256
_HEAD_SECONDS = 60.0
_CHUNKS_AT_ONCE = 256
_LINGER_SECONDS = 2.0
_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_UNREAD = frozenset({h11.IDLE, h11.SEND_BODY, h11.ERROR})  # the program's states in which more may come


@dataclass(frozen=True, kw_only=True)
class Head:
    """The head of an answer."""

    status: int
    reason: bytes = b""
    headers: Headers = ()


class Conversation:
    """One connection of a program that speaks HTTP/1.1.

    Attributes:
        answered: Whether the answer to the present request has begun.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self.answered = False
        self._method = b""
        self._chunked = False

    async def next_request(self) -> h11.Request | None:
        """The next one; None when no more will come.

        Raises:
            h11.RemoteProtocolError: What comes is no HTTP.
            OSError: The connection broke.
        """
        if self._http.our_state is h11.DONE:
            if self._http.their_state is not h11.DONE:
                return None
            self._http.start_next_cycle()
        elif self._http.our_state is not h11.IDLE:
            return None
        self.answered, self._method = False, b""
        event = self._head()
        if event is h11.NEED_DATA:
            with anyio.move_on_after(_HEAD_SECONDS):  # one who speaks a byte a minute is not listened to
                while event is h11.NEED_DATA:
                    self._http.receive_data(await self._wire.receive())
                    event = self._head()
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method
        if _is_whole(event):
            self._http.next_event()  # its end: nobody will ask for a body that is not there
        return event

    async def content(self) -> AsyncIterator[bytes]:
        """The body of the present request, piece by piece. A program that waits for leave to send it gets that here.

        Raises:
            OSError: It broke off.
            h11.RemoteProtocolError: It is no body.
        """
        if self._http.they_are_waiting_for_100_continue:
            leave = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self._wire.send(self._http.send(leave) or b"")
        while True:
            pieces: list[bytes] = []  # what has come at once goes on at once: chunks may have a byte each
            while isinstance(event := self._http.next_event(), h11.Data):
                pieces.append(bytes(event.data))
                if len(pieces) == _CHUNKS_AT_ONCE:
                    break
            if pieces:
                yield b"".join(pieces)
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._wire.receive())
            elif isinstance(event, h11.Data):
                await checkpoint()
            else:
                return

    async def answer(self, head: Head, content: bytes) -> None:
        """Answer with a body that is there already."""
        length = (b"content-length", b"%d" % len(content))
        data = self._begun(Head(status=head.status, reason=head.reason, headers=(*head.headers, length)))
        if self._method != b"HEAD":
            data += self._http.send(h11.Data(data=content)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        await self._wire.send(data)

    async def begin(self, head: Head) -> None:
        """Begin an answer. Without a ``content-length`` its body goes in chunks, where the program knows these."""
        framed = any(name == b"content-length" for name, _ in head.headers)
        self._chunked = not framed and self._method != b"HEAD" and self._http.their_http_version == b"1.1"
        await self._wire.send(self._begun(head))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        with _sendable():  # more than it said that it is, where a secret was taken out of it
            piece = self._http.send(h11.Data(data=data)) or b""
        await self._wire.send(piece)

    async def end(self, trailers: Headers) -> None:
        """End the answer."""
        with _sendable():
            end = h11.EndOfMessage(headers=list(trailers) if self._chunked else [])
        await self._wire.send(self._http.send(end) or b"")

    async def refuse(self, status: int, code: str, reason: str, hint: str) -> None:
        """Answer with why there is no answer. What is still to come of the request is not waited for."""
        content = json.dumps({"code": code, "reason": reason, "hint": hint}).encode() + b"\n"
        unread = self._http.their_state in _UNREAD
        headers = (_JSON, _CLOSE) if unread else (_JSON,)
        await self.answer(Head(status=status, headers=headers), content)

    async def linger(self) -> None:
        """Before it is closed: take what is still sent of a request that was answered early, for a while.

        To close at once would take back the answer; a program that sends all it has before it reads would miss it.
        """
        unread = self._http.their_state in _UNREAD
        if unread and self._http.our_state in {h11.DONE, h11.MUST_CLOSE}:
            with anyio.move_on_after(_LINGER_SECONDS), contextlib.suppress(OSError):
                while await self._wire.receive():
                    pass

    async def accept_tunnel(self) -> None:
        """Say yes to CONNECT: from then on the connection is another's.

        Raises:
            OSError: The program has not waited for it.
        """
        await self._leave(h11.Response(status_code=200, headers=[], reason=b"Connection established"))

    async def switch(self, head: Head) -> None:
        """Say yes to an upgrade: from then on the connection is another's. Raises as above."""
        with _sendable():
            switch = h11.InformationalResponse(status_code=101, headers=list(head.headers), reason=head.reason)
        await self._leave(switch)

    async def _leave(self, event: h11.Response | h11.InformationalResponse) -> None:
        data = self._http.send(event) or b""
        if self._http.trailing_data[0]:
            raise OSError("it went on without waiting for the answer")
        await self._wire.send(data)

    def _head(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        # Looked at before it is taken apart: thousands of lines would take as long as hundreds of requests.
        if self._http.trailing_data[0].partition(b"\r\n\r\n")[0].count(b"\n") > HEAD_LINES:
            raise h11.RemoteProtocolError(f"its head has more than {HEAD_LINES} lines", error_status_hint=431)
        return self._http.next_event()

    def _begun(self, head: Head) -> bytes:
        reason = head.reason or _reason(head.status)
        with _sendable():
            response = h11.Response(status_code=head.status, headers=list(head.headers), reason=reason)
        self.answered = True
        return self._http.send(response) or b""


@contextlib.contextmanager
def _sendable() -> Iterator[None]:
    """A head that can't be sent is the far side's fault: over HTTP/2 it may say anything."""
    try:
        yield
    except h11.LocalProtocolError:  # from None: its text holds what was said
        raise UpstreamError("bad_response", "The answer is none that HTTP allows.") from None


def _is_whole(request: h11.Request) -> bool:
    """Whether no body comes after this head."""
    framing = [header for header in request.headers if header[0] in _FRAMING]
    return not framing or framing == [(b"content-length", b"0")]


def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""
