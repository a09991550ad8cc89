"""A listener on a loopback address, plain or TLS, that counts its connections."""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSListener, TLSStream

HOST = "127.0.0.11"

_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass
class Place:
    """Where a server listens.

    Attributes:
        connections: How many it has accepted.
        ended: How many of them are over.
    """

    host: str
    port: int
    connections: int = 0
    ended: int = 0


@contextlib.asynccontextmanager
async def listening(
    handle: Callable[[ByteStream], Awaitable[None]],
    context: ssl.SSLContext | None = None,
    host: str = HOST,
    port: int = 0,
) -> AsyncIterator[Place]:
    """Serve until the context is left. A client that breaks off is no fault."""
    inner = await anyio.create_tcp_listener(local_host=host, local_port=port)
    place = Place(host, inner.listeners[0].extra(SocketAttribute.local_port))
    listener = TLSListener(inner, context, standard_compatible=False) if context else inner

    async def serve(stream: ByteStream) -> None:
        place.connections += 1
        async with stream:
            with contextlib.suppress(*_GONE):
                await handle(stream)
            if isinstance(stream, TLSStream):
                with contextlib.suppress(*_GONE, OSError), anyio.move_on_after(1):
                    await stream.unwrap()  # says that this is the end: without that, an answer may be cut off
        place.ended += 1

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield place
        tasks.cancel_scope.cancel()


def free_port() -> int:
    """A port of this address where nobody listens."""
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()[1]


def protocol_of(stream: ByteStream) -> str | None:
    """What ALPN has agreed on."""
    return stream.extra(TLSAttribute.alpn_protocol, None)
