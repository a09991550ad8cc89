"""A WebSocket server by wsproto that sends back what it gets."""

from anyio.abc import ByteStream
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage


async def handle(stream: ByteStream) -> None:
    """Accept one upgrade, and echo until the client closes."""
    protocol = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        protocol.receive_data(data)
        for event in protocol.events():
            match event:
                case Request():
                    await stream.send(protocol.send(AcceptConnection()))
                case TextMessage() | BytesMessage():
                    await stream.send(
                        protocol.send(type(event)(data=event.data, message_finished=event.message_finished))
                    )
                case Ping() | CloseConnection():
                    await stream.send(protocol.send(event.response()))
                case _:
                    pass
