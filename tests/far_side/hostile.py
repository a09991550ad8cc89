"""A server that works with the attacker: it remembers every byte that it got, and says whatever it was told to say."""

import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from anyio.abc import ByteStream
from tests.far_side.listening import HOST, Place, listening

_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: chunked\r\n", re.IGNORECASE)


@dataclass
class Heard:
    """One request, as it came."""

    head: bytes
    body: bytes = b""

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    def values(self, name: str) -> list[bytes]:
        """What the headers of this name say."""
        lines = (line.partition(b": ") for line in self.head.split(b"\r\n")[1:])
        return [value for key, _, value in lines if key.lower() == name.encode()]

    @property
    def key(self) -> bytes:
        """The bearer token that came with it."""
        return b"".join(self.values("authorization")).removeprefix(b"Bearer ")


Said: TypeAlias = bytes | AsyncIterator[bytes]


@dataclass
class Hostile:
    """A running server.

    Attributes:
        answers: What it says by path, knowing what it has heard; ``ok`` where there is nothing. After an answer in
            pieces, or that does not say how long it is, or says ``connection: close``, it hangs up.
        heard: All requests.
        received: Every byte.
    """

    place: Place
    answers: dict[str, Callable[[Heard], Said]] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)

    def at(self, path: str) -> list[Heard]:
        """The requests for this path."""
        return [heard for heard in self.heard if heard.target.partition("?")[0] == path]

    def forget(self) -> None:
        self.heard.clear()
        self.received.clear()

    async def handle(self, stream: ByteStream) -> None:
        """Answer requests, one after the other."""
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                data += await self._more(stream)
            head, _, data = data.partition(b"\r\n\r\n")
            heard = Heard(head + b"\r\n")
            self.heard.append(heard)
            heard.body, data = await self._body(heard.head, data, stream)
            make = self.answers.get(heard.target.partition("?")[0], lambda _: whole(b"ok"))
            said = make(heard)
            if isinstance(said, bytes):
                await stream.send(said)
                head = said.partition(b"\r\n\r\n")[0].lower() + b"\r\n"
                if b"connection: close" in head or not (_LENGTH.search(head) or _CHUNKED.search(head)):
                    return
                continue
            async for piece in said:
                await stream.send(piece)
            return

    async def _body(self, head: bytes, data: bytes, stream: ByteStream) -> tuple[bytes, bytes]:
        if _CHUNKED.search(head):
            body = b""
            while True:
                while b"\r\n" not in data:
                    data += await self._more(stream)
                size, _, data = data.partition(b"\r\n")
                while len(data) < int(size, 16) + 2:
                    data += await self._more(stream)
                body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
                if int(size, 16) == 0:
                    return body, data
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        while len(data) < length:
            data += await self._more(stream)
        return data[:length], data[length:]

    async def _more(self, stream: ByteStream) -> bytes:
        data = await stream.receive()
        self.received += data
        return data


def whole(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer that says how long it is."""
    lines = (b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*pieces: bytes, headers: tuple[bytes, ...] = (), trailers: tuple[bytes, ...] = ()) -> bytes:
    """An answer in these chunks."""
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *headers))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return head + b"\r\n\r\n" + chunks + b"0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"


@contextlib.asynccontextmanager
async def hostile(context: ssl.SSLContext | None = None, host: str = HOST, port: int = 0) -> AsyncIterator[Hostile]:
    """Serve until the context is left."""
    server = Hostile(Place(host, port))
    async with listening(server.handle, context, host, port) as server.place:
        yield server
