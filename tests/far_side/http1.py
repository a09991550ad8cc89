"""An HTTP/1.1 server by h11."""

from collections.abc import AsyncIterator

import anyio
import h11
from anyio.abc import ByteStream
from tests.far_side.app import App, BreakOff, Request


async def handle(app: App, stream: ByteStream) -> None:
    """Answer requests, one after the other, until the client or an answer ends it."""
    protocol = h11.Connection(h11.SERVER)
    while True:
        head = await _event(protocol, stream)
        if not isinstance(head, h11.Request):
            return
        request = Request(head.method.decode(), head.target.decode(), list(head.headers), _body(protocol, stream))
        response = await app.answer(request)
        if response.informational:
            await stream.send(protocol.send(h11.InformationalResponse(status_code=response.informational, headers=[])))
        await stream.send(protocol.send(h11.Response(status_code=response.status, headers=response.headers)))
        try:
            async for piece in response.body:
                if head.method != b"HEAD":
                    await stream.send(protocol.send(h11.Data(data=piece)))
        except BreakOff:
            return
        await stream.send(protocol.send(h11.EndOfMessage(headers=response.trailers)))
        if protocol.their_state is h11.SEND_BODY:
            protocol.next_event()  # the end of a body that nobody read, if there was none
        if protocol.their_state is not h11.DONE or protocol.our_state is not h11.DONE:
            return
        protocol.start_next_cycle()


async def _body(protocol: h11.Connection, stream: ByteStream) -> AsyncIterator[bytes]:
    while isinstance(event := await _event(protocol, stream), h11.Data):
        yield bytes(event.data)


async def _event(protocol: h11.Connection, stream: ByteStream):
    try:
        while (event := protocol.next_event()) is h11.NEED_DATA:
            if protocol.they_are_waiting_for_100_continue:
                await stream.send(protocol.send(h11.InformationalResponse(status_code=100, headers=[])))
            protocol.receive_data(await stream.receive())
    except h11.RemoteProtocolError as error:
        raise anyio.EndOfStream from error
    return event
