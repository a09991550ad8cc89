"""An HTTP proxy that knows CONNECT alone. It looks no name up: all of them lead to one place."""

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream
from tests.far_side.listening import HOST, Place, listening


@dataclass
class ConnectProxy:
    """A running proxy.

    Attributes:
        place: Where it listens.
        leads_to: Port of the server that it connects to.
        pair: User and password that it wants; empty for none.
        answer: What it says instead, where that is set.
        heads: The requests that it got.
    """

    leads_to: int
    place: Place = field(init=False)
    pair: str = ""
    answer: bytes = b""
    heads: list[str] = field(default_factory=list)

    async def handle(self, stream: ByteStream) -> None:
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += await stream.receive()
        self.heads.append(heard.decode())
        wanted = base64.b64encode(self.pair.encode()).decode()
        if self.answer:
            await stream.send(self.answer)
        elif self.pair and f"Proxy-Authorization: Basic {wanted}\r\n" not in self.heads[-1]:
            await stream.send(b"HTTP/1.1 407 Who are you, secretly\r\nProxy-Authenticate: Basic\r\n\r\n")
        else:
            async with await anyio.connect_tcp(HOST, self.leads_to) as server:
                await stream.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_pass_on, server, stream, tasks.cancel_scope)
                    await _pass_on(stream, server, tasks.cancel_scope)


@contextlib.asynccontextmanager
async def connect_proxy(leads_to: int, **how) -> AsyncIterator[ConnectProxy]:
    """Serve one until the context is left."""
    proxy = ConnectProxy(leads_to, **how)
    async with listening(proxy.handle) as proxy.place:
        yield proxy


async def _pass_on(source: ByteStream, target: ByteStream, scope: anyio.CancelScope) -> None:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await target.send(await source.receive())
    scope.cancel()
