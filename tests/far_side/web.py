"""One web server, which speaks HTTP/1.1."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

from anyio.abc import ByteStream
from tests.far_side import http1
from tests.far_side.app import App
from tests.far_side.listening import HOST, Place, listening


@dataclass
class Web:
    """A running server."""

    place: Place
    app: App


@contextlib.asynccontextmanager
async def web(context: ssl.SSLContext | None = None, host: str = HOST, port: int = 0) -> AsyncIterator[Web]:
    """Serve ``App`` until the context is left."""
    app = App()

    async def handle(stream: ByteStream) -> None:
        await http1.handle(app, stream)

    async with listening(handle, context, host, port) as place:
        yield Web(place, app)
