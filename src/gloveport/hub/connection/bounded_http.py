"""Bounds the HTTP answers of a server: sizes of bodies and events, numbers of values, deadlines.

There is no compression, for a small body may decompress to a huge one, and no cookie. A broken event stream is not
resumed: a server could have us resume it without end, long after the call.
"""

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, NoReturn, TypeAlias

import anyio
import httpx2
import pydantic_core
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage
from msgspec import Struct, field

from gloveport.errors import UpstreamError
from gloveport.fairness import Pace, compute
from gloveport.hub.connection.unreadable import ASK_FOR_LESS, is_bad_answer, mend, read_message, too_large
from gloveport.limits.untrusted_json import MOST_VALUES, count_values, has_many_values
from gloveport.policy.wording import quote_sent

AfterFailure: TypeAlias = Literal["goes on", "is stuck"]
"""How the SDK's transport reacts to a message that could not be sent."""

_CONNECT_SECONDS = 10.0
_GONE_ON_WITH = (*range(HTTPStatus.BAD_REQUEST), HTTPStatus.UNAUTHORIZED)
"""Statuses after which the older transport can go on; after 401, a second try may be authorized."""

_SLICE_BYTES = 1 << 12
"""So much of a stream of events is handled at once: it may be hundreds of events, for the SDK too."""

_FIELDS = (b"data", b"event")
"""Fields of events that are passed on: not those for resuming a broken stream, unknown ones, or comments."""


@dataclass(kw_only=True, eq=False)
class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and holds their answers to the bounds. The class above is httpx2's interface.

    Attributes:
        most: Most bytes of a body, or of an event.
        seconds: From a request to the end of its answer, except for the stream of notifications, which has no end.
        after_failure: What the SDK's transport does when a message could not be sent.
        fail: Ends the connection.
        status: Of the last answer.
    """

    inner: httpx2.AsyncBaseTransport
    name: str
    most: int
    seconds: float
    after_failure: AfterFailure
    fail: Callable[[UpstreamError], None]
    status: int = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. A late answer becomes a status 504, which fails this call alone."""
        endless = request.method == "GET" or request.headers.get("mcp-method") == "subscriptions/listen"
        deadline = math.inf if endless else anyio.current_time() + self.seconds
        # A timeout of httpx2 would end the connection, and with it all other calls.
        patience = {"connect": _CONNECT_SECONDS, "read": None, "write": None, "pool": None}
        request.extensions = {**request.extensions, "timeout": patience}
        with anyio.CancelScope(deadline=deadline):
            response = await self._answer(request)
            self.status = response.status_code
            if fault := self._fault(request, response):
                await response.aclose()
                await self.end(*fault)
            return self._bound_size(request, response, deadline)
        return httpx2.Response(HTTPStatus.GATEWAY_TIMEOUT, request=request)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self.inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method == "POST" and self.after_failure == "is stuck":
                await self.end("server_gone", f"can't be reached any more ({type(error).__name__})", "")
            raise
        except UpstreamError as error:  # the owner's proxy failed; it may have another address or password next time
            self.fail(error)
            await anyio.sleep_forever()
            raise

    def _fault(self, request: httpx2.Request, response: httpx2.Response) -> tuple[str, str, str] | None:
        """Return code, sentence and hint of a response after which the connection can't be used further."""
        status, coding = response.status_code, response.headers.get("content-encoding", "identity")
        if coding != "identity":
            return "bad_answer", "has sent a body in a coding that it was not asked for", ""
        if request.method != "POST":
            return None
        if status == HTTPStatus.NOT_FOUND and "mcp-session-id" in request.headers:
            return "server_gone", "knows the session no more", "Try again: that begins another."
        if self.after_failure == "is stuck" and status not in _GONE_ON_WITH:
            return "server_gone", f"has answered a message with {status}", ""
        return None

    def _bound_size(self, request: httpx2.Request, response: httpx2.Response, deadline: float) -> httpx2.Response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        headers = response.headers.copy()
        headers.pop("set-cookie", None)  # a jar would grow without bounds
        headers["content-type"] = kind  # without a charset: decoded otherwise, the text would not be what was checked
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - it comes from such a transport
        events = _Events(answers_all=self.after_failure == "is stuck") if kind == "text/event-stream" else None
        asked = request.content if math.isfinite(deadline) and response.is_success else b""
        stream = _Body(self, response.stream, deadline, events, asked)
        return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=response.extensions)

    async def end(self, code: str, what: str, hint: str) -> NoReturn:
        """End the connection, and wait until it has ended: nobody is to take a partial answer for a whole one."""
        self.fail(
            UpstreamError(code, f"The server {quote_sent(self.name)} {what}; the connection has ended.", hint=hint)
        )
        await anyio.sleep_forever()
        raise AssertionError  # sleeping ends by being cancelled

    async def aclose(self) -> None:
        """Close all connections."""
        await self.inner.aclose()


@dataclass(eq=False)
class _Body(httpx2.AsyncByteStream):
    """One response body, read within the bounds. The class above is httpx2's interface.

    Attributes:
        asked: The message that it answers; empty for the stream of notifications, and for a refusal.
    """

    transport: BoundedTransport
    stream: httpx2.AsyncByteStream
    deadline: float
    events: "_Events | None"
    asked: bytes
    is_cut: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = self._whole() if self.events is None else self._lines(self.events)
        async for piece in body:
            yield piece

    async def _whole(self) -> AsyncIterator[bytes]:
        """Yield the body at once, when its values have been counted: a reader of JSON waits for the end anyhow."""
        pieces, body = aiter(self.stream), bytearray()
        while (piece := await self._next(pieces)) is not None:
            body += piece
            if len(body) > self.transport.most:
                yield await self._cut(f"{self.transport.most} bytes")
                return
        whole = bytes(body)
        if await compute(len(whole), has_many_values, whole):
            yield await self._cut(f"{MOST_VALUES} values")
        else:
            yield await compute(len(whole), mend, whole)

    async def _lines(self, events: "_Events") -> AsyncIterator[bytes]:
        pieces, pace = aiter(self.stream), Pace()
        while (piece := await self._next(pieces)) is not None:
            for at in range(0, len(piece), _SLICE_BYTES):
                began = time.monotonic()
                lines = await self._bound_size(events, piece[at : at + _SLICE_BYTES])
                await pace.rest(began)
                yield lines
                if self.is_cut:
                    return
                await checkpoint()
        yield await self._bound_size(events, b"\n")  # the last line may have no end

    async def _bound_size(self, events: "_Events", piece: bytes) -> bytes:
        ends_line = b"\n" in piece or b"\r" in piece
        lines = await compute(len(piece) + ends_line * len(events.rest), events.feed, piece)
        if events.size > self.transport.most:
            return await self._cut(f"{self.transport.most} bytes")
        if events.values > MOST_VALUES:
            return await self._cut(f"{MOST_VALUES} values")
        return lines

    async def _cut(self, most: str) -> bytes:
        """Read no further: return an error in the place of the answer, or end the connection if it answers nothing."""
        number = pydantic_core.from_json(self.asked).get("id") if self.asked else None
        if number is None:
            what = f"has sent a message of more than {most}"
            await self.transport.end("answer_too_large", what, ASK_FOR_LESS)
        self.is_cut = True
        error = too_large(number, f"more than {most}").model_dump_json(by_alias=True).encode()
        # The SDK passes over events of other types: here what has come of the event that is too large.
        return error if self.events is None else b"event: cut\n\nevent: message\ndata: " + error + b"\n\n"

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        with anyio.CancelScope(deadline=self.deadline):
            await checkpoint()  # thousands of small pieces may have come at once
            try:
                return await anext(pieces, None)
            except httpx2.TransportError as error:
                if self.deadline == math.inf:
                    raise  # a stream of notifications, which the SDK opens anew
                what = f"has broken off its answer ({type(error).__name__})"
                await self.transport.end("server_gone", what, "It is not known whether the call has had an effect.")
        return None

    async def aclose(self) -> None:
        await self.stream.aclose()


class _Events(Struct, kw_only=True, eq=False):
    """Filters server-sent events: drops what means nothing to us, repairs broken text, and counts.

    Attributes:
        answers_all: Whether an unreadable answer becomes an error here. The SDK's older transport drops it.
        size: Bytes of the largest event in the last chunk, the incomplete one included.
        values: JSON values in the largest event, counted line by line: no JSON string goes over the end of a line, and
            an open quote must not hide the lines after it.
        rest: The beginning of an incomplete line.
    """

    answers_all: bool = False
    size: int = 0
    values: int = 0
    rest: bytearray = field(default_factory=bytearray)  # bytes would be copied for each piece of a long line
    _before: int = 0
    """Bytes of the complete lines of the incomplete event."""
    _values: int = 0
    _is_open: bool = False
    """Whether an event has begun."""

    def feed(self, piece: bytes) -> bytes:
        """Take a chunk, and return the complete lines."""
        # A CR at the end may be the first half of a CR LF.
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, -1)) + 1
        if not cut:
            self.rest += piece
            self.size = self._before + len(self.rest)
            return b""
        lines = [*self._meaningful(bytes(self.rest + piece[:cut]).splitlines(keepends=True))]
        self.rest = bytearray(piece[cut:])
        largest = 0
        for line in lines:
            text = line.rstrip(b"\r\n")
            self._before = self._before + len(text) if text else 0
            largest = max(largest, self._before)
            self._values = self._values + count_values(text) if text else 0
            self.values = max(self.values, self._values)
        self.size = max(largest, self._before + len(self.rest))
        return b"".join(map(self._readable, lines))

    def _meaningful(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines that the SDK needs: of empty ones only those that end an event."""
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.partition(b":")[0] in _FIELDS if text else self._is_open:
                self._is_open = bool(text)
                yield line

    def _readable(self, line: bytes) -> bytes:
        line = mend(line)
        name, _, data = line.partition(b":")
        if not self.answers_all or name != b"data" or not data.lstrip().startswith(b"{"):
            return line
        read = read_message(data.strip())
        if not isinstance(read, SessionMessage) or not is_bad_answer(read):
            return line
        return b"data: " + read.message.model_dump_json(by_alias=True).encode() + line[len(line.rstrip(b"\r\n")) :]
