"""What the HTTP servers of the far side answer, whatever the version of HTTP."""

import gzip
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import anyio

Headers = list[tuple[bytes, bytes]]
PIECE = b"0123456789abcdef" * 1024


class BreakOff(Exception):  # noqa: N818 - it is an order
    """The connection, or the stream, is to end here."""


@dataclass
class Request:
    method: str
    target: str
    headers: Headers
    body: AsyncIterator[bytes]


@dataclass
class Response:
    body: AsyncIterator[bytes]
    status: int = 200
    headers: Headers = field(default_factory=list)
    trailers: Headers = field(default_factory=list)
    informational: int | None = None


@dataclass
class App:
    """Answers by path.

    Attributes:
        requests: Method and target of each request, in order.
        sent: Bytes of bodies that a server was able to send.
        released: What ``/slow`` waits for before its head, ``/half`` and ``/early`` before their end.
        event: Each time it is set ``/sse`` sends one event.
        routes: Further answers, by the first part of the path.
    """

    requests: list[str] = field(default_factory=list)
    sent: int = 0
    released: anyio.Event = field(default_factory=anyio.Event)
    event: anyio.Event = field(default_factory=anyio.Event)
    routes: dict[str, Callable[[Request], Awaitable[Response]]] = field(default_factory=dict)

    async def answer(self, request: Request) -> Response:  # noqa: C901, PLR0911, PLR0912 - a table
        self.requests.append(f"{request.method} {request.target}")
        name, _, rest = request.target.partition("?")[0][1:].partition("/")
        match name:
            case "echo":
                return await _echo(request)
            case "status":
                return _whole(b"", int(rest))
            case "size":
                return Response(self._bytes(int(rest)), headers=[(b"content-length", rest.encode())])
            case "chunked":
                return Response(self._bytes(int(rest)))
            case "trailers":
                return Response(_pieces(b"a", b"b"), trailers=[(b"x-checksum", b"ab"), (b"content-length", b"9")])
            case "cookies":
                return _whole(b"", headers=[(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")])
            case "gzip":
                return _whole(gzip.compress(rest.encode()), headers=[(b"content-encoding", b"gzip")])
            case "redirect":
                return _whole(b"", 302, [(b"location", b"http://169.254.169.254/latest")])
            case "informational":
                return Response(_pieces(b"ok"), informational=103)
            case "hop":
                return _whole(
                    b"", headers=[(b"connection", b"x-for-you, keep-alive"), (b"x-for-you", b"1"), (b"x-stays", b"2")]
                )
            case "sse":
                return Response(self._events(), headers=[(b"content-type", b"text/event-stream")])
            case "slow":
                await self.released.wait()
                return _whole(b"at last")
            case "early":
                return Response(self._half(), 413)
            case "half":
                return Response(self._half(), headers=[(b"content-length", b"8")])
            case "cut":
                return Response(_cut(), headers=[(b"content-length", b"100")])
            case _ if name in self.routes:
                return await self.routes[name](request)
            case _:
                return _whole(b"not found", 404)

    async def _bytes(self, size: int) -> AsyncIterator[bytes]:
        for start in range(0, size, len(PIECE)):
            yield PIECE[: size - start]
            self.sent += min(len(PIECE), size - start)

    async def _events(self) -> AsyncIterator[bytes]:
        for number in range(1 << 30):
            await self.event.wait()
            self.event = anyio.Event()
            yield b"data: %d\n\n" % number

    async def _half(self) -> AsyncIterator[bytes]:
        yield b"half"
        await self.released.wait()
        yield b"full"


async def _echo(request: Request) -> Response:
    digest, size = hashlib.sha256(), 0
    async for piece in request.body:
        digest.update(piece)
        size += len(piece)
    said = {
        "method": request.method,
        "target": request.target,
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers],
        "size": size,
        "sha256": digest.hexdigest(),
    }
    return _whole(json.dumps(said).encode(), headers=[(b"content-type", b"application/json")])


async def _cut() -> AsyncIterator[bytes]:
    yield b"some of it"
    raise BreakOff


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _whole(body: bytes, status: int = 200, headers: Headers | None = None) -> Response:
    return Response(_pieces(body), status, [*(headers or []), (b"content-length", b"%d" % len(body))])
