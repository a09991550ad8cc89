"""A WebSocket server by wsproto that sends back what it gets."""

from collections.abc import Callable, Iterable

from anyio.abc import ByteStream
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Ping, Pong, Request, TextMessage


def says_nothing(_request: Request) -> Iterable[Event]:
    """Nothing but the echo."""
    return ()


async def handle(stream: ByteStream, greeting: Callable[[Request], Iterable[Event]] = says_nothing) -> None:
    """Accept one upgrade, send the greeting's messages, and echo until somebody closes.

    A pong is told as a text, and ``close CODE REASON`` is done.
    """
    protocol = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        protocol.receive_data(data)
        for event in protocol.events():
            if protocol.state is not ConnectionState.CLOSED:
                for answer in _answers(event, greeting):
                    await stream.send(protocol.send(answer))


def _answers(event: Event, greeting: Callable[[Request], Iterable[Event]]) -> Iterable[Event]:
    match event:
        case Request():
            return (AcceptConnection(), *greeting(event))
        case TextMessage(data=text) if text.startswith("close "):
            _, code, reason = text.split(" ", 2)
            return (CloseConnection(code=int(code), reason=reason),)
        case TextMessage() | BytesMessage():
            return (type(event)(data=event.data, message_finished=event.message_finished),)
        case Pong():
            return (TextMessage(data=f"pong {event.payload.decode()}"),)
        case Ping() | CloseConnection():
            return (event.response(),)
        case _:
            return ()
