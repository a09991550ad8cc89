"""HTTP/1.1 server: receives a program's requests on one connection, and answers them one after the other."""

import contextlib
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple

import anyio
from anyio.lowlevel import checkpoint

from gloveport.egress.http.bodies import BodyReader, encode_chunk
from gloveport.egress.http.heads import (
    WITHOUT_BODY,
    Framing,
    Headers,
    Malformed,
    RequestHead,
    find_end,
    may_be_request,
    options_of,
    read_request,
    write_head,
)
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import UpstreamError

HEAD_LINES = 256
_HEAD_SECONDS = 60.0
_LINGER_SECONDS = 2.0
_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_CHUNKED = (b"transfer-encoding", b"chunked")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_NO_BODY, _ENDLESS = Framing(0, chunked=False), Framing(None, chunked=False)
_NO_HEAD = RequestHead("", "", b"1.1", (), _NO_BODY)


class AnswerHead(NamedTuple):
    """The head of an answer."""

    status: int
    reason: bytes = b""
    headers: Headers = ()


class ServerConnection:
    """One HTTP/1.1 connection of a program.

    Attributes:
        answered: Whether the answer to the current request has begun.
    """

    def __init__(self, wire: SocketStream) -> None:
        self.answered = False
        self._wire = wire
        self._buffer = bytearray()
        self._head = _NO_HEAD
        self._body = BodyReader(framing=_NO_BODY)
        self._awaits_leave = False
        self._goes_on = True
        """Whether another request may follow the present one."""

        self._outgoing: Framing | None = _NO_BODY
        """How the body of the answer is framed; None after its end."""

        self._remaining_bytes = 0

    async def next_request(self) -> RequestHead | None:
        """Receive the next request; None when no more will come.

        Raises:
            Malformed: The data is no HTTP.
            OSError: The connection broke.
        """
        if not (self._goes_on and self._body.ended):
            return None
        self.answered, self._goes_on, self._outgoing = False, False, _NO_BODY
        self._head, self._body = _NO_HEAD, BodyReader(framing=_ENDLESS)
        if not self._buffer and not await self._receive():
            return None
        end = find_end(self._buffer, HEAD_LINES)
        if not end:
            with anyio.move_on_after(_HEAD_SECONDS):  # against a client that sends a byte a minute
                end = await self._receive_head()
        if not end:
            return None
        head = self._head = read_request(bytes(self._buffer[:end]))
        del self._buffer[:end]
        self._body = BodyReader(framing=_NO_BODY if head.framing == _ENDLESS else head.framing)
        self._goes_on = head.version == b"1.1" and b"close" not in options_of(head.headers)
        self._awaits_leave = any(name == b"expect" and value.lower() == b"100-continue" for name, value in head.headers)
        return head

    async def content(self) -> AsyncIterator[bytes]:
        """Iterate over the body of the current request. Sends 100 Continue first, if the program waits for that.

        Raises:
            OSError: The connection broke.
            Malformed: The body's framing is wrong.
        """
        if self._awaits_leave and not self._buffer:
            await self._wire.send(_CONTINUE)
        self._awaits_leave = False
        while True:
            if piece := self._body.take(self._buffer):
                yield piece
                if self._buffer:
                    await checkpoint()  # a fast program must not keep other tasks from running
            elif self._body.ended:
                return
            elif not await self._receive():
                raise OSError("it broke off in the middle of a body")

    async def answer(self, head: AnswerHead, content: bytes) -> None:
        """Send a complete answer. Raises UpstreamError if the head can't be sent."""
        data = self._start_answer(head, Framing(len(content), chunked=False))
        self._outgoing = None
        await self._wire.send(data if self._head.method == "HEAD" else data + content)

    async def begin(self, head: AnswerHead, length: int | None) -> None:
        """Begin an answer. A body without a length goes in chunks if the program supports them. Raises as above."""
        chunked = length is None and self._head.version == b"1.1" and not self._is_bodyless(head)
        await self._wire.send(self._start_answer(head, Framing(length, chunked=chunked)))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body. Raises UpstreamError if the body is longer than declared."""
        if self._outgoing is None or not data:
            return
        if self._outgoing.length is not None:
            self._remaining_bytes -= len(data)
            if self._remaining_bytes < 0:
                raise _unlike_its_head()
        await self._wire.send(encode_chunk(data) if self._outgoing.chunked else data)

    async def end(self, trailers: Headers) -> None:
        """End the answer. Raises UpstreamError if the body is shorter than declared, or the trailers can't be sent."""
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is None:
            return
        if outgoing.chunked:
            await self._wire.send(_write_head(b"0", trailers))
        elif outgoing.length is not None and self._remaining_bytes:
            raise _unlike_its_head()

    async def refuse(self, status: int, code: str, reason: str, hint: str) -> None:
        """Answer with a refusal, without waiting for the rest of the request."""
        content = json.dumps({"code": code, "reason": reason, "hint": hint}).encode() + b"\n"
        await self.answer(AnswerHead(status=status, headers=(_JSON,)), content)

    async def linger(self) -> None:
        """Read the rest of a request that was answered early, for a while, before the connection is closed.

        Closing at once would reset the connection, and a program that sends its whole request first would miss the
        answer.
        """
        if self.answered and self._outgoing is None and not self._body.ended:
            with anyio.move_on_after(_LINGER_SECONDS), contextlib.suppress(OSError):
                while await self._wire.receive():
                    pass

    async def accept_tunnel(self) -> None:
        """Accept a CONNECT. From then on another protocol uses the connection.

        Raises:
            OSError: The program has sent data before the answer.
        """
        await self._leave(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def switch(self, head: AnswerHead) -> None:
        """Accept an upgrade. From then on another protocol uses the connection.

        Raises:
            OSError: As above.
            UpstreamError: The head can't be sent.
        """
        await self._leave(_write_head(_line(head), head.headers))

    async def _leave(self, data: bytes) -> None:
        self.answered, self._goes_on = True, False
        if self._buffer or not self._body.ended:
            raise OSError("it went on without waiting for the answer")
        await self._wire.send(data)

    async def _receive_head(self) -> int:
        """Receive until a head is complete; return where it ends, or 0 if the connection ends first.

        Raises:
            Malformed: The connection ends within a head, or the data is no head.
        """
        searched_bytes, has_line = 0, False
        while not (end := find_end(self._buffer, HEAD_LINES, searched_bytes)):
            if not has_line and not may_be_request(self._buffer):
                raise Malformed("it does not begin with a request of HTTP/1.1")
            has_line, searched_bytes = has_line or b"\r\n" in self._buffer, len(self._buffer)
            if not await self._receive():
                if self._buffer:
                    raise Malformed("it breaks off in its head")
                return 0
        return end

    async def _receive(self) -> bool:
        data = await self._wire.receive()
        self._buffer += data
        return bool(data)

    def _is_bodyless(self, head: AnswerHead) -> bool:
        return head.status in WITHOUT_BODY or self._head.method == "HEAD"

    def _start_answer(self, head: AnswerHead, framing: Framing) -> bytes:
        """Make the head of the answer. Only this method makes framing headers of answers."""
        headers = head.headers
        if framing.length is not None:
            headers = (*headers, (b"content-length", b"%d" % framing.length))
        elif framing.chunked:
            headers = (*headers, _CHUNKED)
        elif not self._is_bodyless(head):
            self._goes_on = False  # the body ends with the connection
        if not (self._goes_on and self._body.ended):
            self._goes_on = False
            headers = (*headers, _CLOSE)
        data = _write_head(_line(head), headers)
        self.answered, self._outgoing = True, None if self._is_bodyless(head) else framing
        self._remaining_bytes = framing.length or 0
        return data


def _line(head: AnswerHead) -> bytes:
    return b"HTTP/1.1 %d %b" % (head.status, head.reason or _REASONS.get(head.status, b""))


def _write_head(line: bytes, headers: Headers) -> bytes:
    """Write a head; one that can't be written is the upstream server's fault."""
    try:
        return write_head(line, headers)
    except ValueError:
        raise UpstreamError("bad_response", "The answer is none that HTTP allows.") from None


def _unlike_its_head() -> UpstreamError:
    return UpstreamError("bad_response", "The answer is not as long as it said.")
