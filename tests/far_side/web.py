"""One web server: HTTP/1.1, HTTP/2 where ALPN says so."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from anyio.abc import ByteStream
from tests.far_side import http1, http2
from tests.far_side.app import App
from tests.far_side.listening import HOST, Place, listening, protocol_of


@dataclass
class Web:
    """A running server.

    Attributes:
        sessions: Its HTTP/2 connections.
    """

    place: Place
    app: App
    sessions: list[http2.Session] = field(default_factory=list)


@contextlib.asynccontextmanager
async def web(
    context: ssl.SSLContext | None = None, host: str = HOST, port: int = 0, streams_at_once: int = 100
) -> AsyncIterator[Web]:
    """Serve ``App`` until the context is left."""
    app, sessions = App(), []

    async def handle(stream: ByteStream) -> None:
        if protocol_of(stream) != "h2":
            await http1.handle(app, stream)
            return
        sessions.append(http2.Session(app, stream, streams_at_once))
        await sessions[-1].handle()

    async with listening(handle, context, host, port) as place:
        yield Web(place, app, sessions)
