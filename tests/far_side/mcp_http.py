"""An MCP server on a raw socket, whose every byte a test decides."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from anyio.abc import ByteStream
from tests.far_side.listening import HOST, Place, listening

MODERN = "2026-07-28"


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    message: dict
    stream: ByteStream = field(repr=False)

    @property
    def what(self) -> str:
        """What a message asks for."""
        return self.message.get("method", "")

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.stream.send(piece)


@dataclass
class Far:
    """A server that listens."""

    place: Place
    scheme: str = "http"
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place.host}:{self.place.port}/mcp"

    def count(self, what: str) -> int:
        """How often this was asked for."""
        return sum(asked.what == what for asked in self.asked)


def reply(
    body: bytes, kind: str = "application/json", status: str = "200 OK", headers: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """A whole answer."""
    fields = (("content-type", kind), ("content-length", str(len(body))), *headers)
    return head(status, fields) + body


def head(status: str = "200 OK", fields: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields), "", ""]).encode()


def result(asked: Asked, value: object) -> bytes:
    """A JSON-RPC result."""
    return json.dumps({"jsonrpc": "2.0", "id": asked.message.get("id"), "result": value}).encode()


def event(data: bytes, before: bytes = b"") -> bytes:
    """One event of a stream."""
    return before + b"data: " + data + b"\n\n"


def usual(asked: Asked, tools: tuple[dict, ...] = (), session: str = "", version: str = "2025-06-18") -> bytes:
    """What a server that behaves answers to the handshake, to a listing and to a call."""
    modern = version == MODERN
    values = {
        "initialize": {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "0"},
        },
        "tools/list": {"tools": [{"name": "plain", "inputSchema": {"type": "object"}}, *tools]}
        | ({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}),
        "tools/call": {"content": [{"type": "text", "text": "right"}]} | ({"resultType": "complete"} if modern else {}),
    }
    if modern:
        values["server/discover"] = {
            "supportedVersions": [MODERN],
            "capabilities": {"tools": {}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if asked.what in values:
        named = (("mcp-session-id", session),) if session and asked.what == "initialize" else ()
        return reply(result(asked, values[asked.what]), headers=named)
    if "id" not in asked.message:
        return reply(b"", status="202 Accepted" if asked.method == "POST" else "405 Method Not Allowed")
    return reply(b"", status="404 Not Found")


@contextlib.asynccontextmanager
async def raw(
    conduct: Callable[[Asked], Awaitable[None]], context: ssl.SSLContext | None = None, host: str = HOST
) -> AsyncIterator[Far]:
    """Serve until the context is left: each request goes to ``conduct``, which answers it."""
    known: list[Far] = []

    async def handle(stream: ByteStream) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            text, _, data = data.partition(b"\r\n\r\n")
            first, *lines = text.decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            while len(data) < int(headers.get("content-length", 0)):
                data += await stream.receive()
            size = int(headers.get("content-length", 0))
            body, data = data[:size], data[size:]
            method, path, _ = first.split()
            message = json.loads(body) if body else {}
            asked = Asked(method, path, headers, message, stream)
            known[0].asked.append(asked)
            await conduct(asked)

    async with listening(handle, context, host) as place:
        known.append(Far(place, "https" if context else "http"))
        yield known[0]
