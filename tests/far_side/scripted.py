"""A server that says what it was told to say, right or wrong."""

import contextlib
import ssl
from collections.abc import AsyncIterator

from anyio.abc import ByteStream
from tests.far_side.listening import Place, listening


@contextlib.asynccontextmanager
async def scripted(*answers: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[Place]:
    """Each request, up to the end of its head, gets the next answer; after the last the server hangs up.

    A further connection goes on where the one before ended.
    """
    left = list(answers)

    async def handle(stream: ByteStream) -> None:
        while left:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            await stream.send(left.pop(0))

    async with listening(handle, context) as place:
        yield place
