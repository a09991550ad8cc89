"""Who says something and hangs up at once is heard, whatever was on its way to it."""

import contextlib
import socket

import anyio
import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import TextMessage

from gloveport.egress.proxy.websocket import WebSocketRelay
from gloveport.egress.transport.stream import SocketStream
from gloveport.egress.tunnel import Count, join
from gloveport.secrets.scrub import Needles
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

WORD = "the last word"


def message(kind, text):
    return Connection(kind).send(TextMessage(data=text))


def filled(sock):
    """How many bytes it took until a socket took no more."""
    sock.settimeout(0)
    size = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            size += sock.send(bytes(4096))
    return size


async def by_websocket(near, far):
    relay = WebSocketRelay(vault=Vault(Sources({})), redactions=Needles(), own_text=None)
    await relay.run(near, far, ahead=b"")
    return relay.sent_bytes


async def by_tunnel(near, far):
    count = Count()
    await join(near, far, count)
    return count.sent


def text(data):
    server = Connection(ConnectionType.SERVER)
    server.receive_data(data)
    return "".join(event.data for event in server.events())


@pytest.mark.parametrize(
    ("passed_on", "said", "greetings", "understood"),
    [
        pytest.param(
            by_websocket,
            message(ConnectionType.CLIENT, WORD),
            message(ConnectionType.SERVER, "hi"),
            text,
            id="WebSocket",
        ),
        pytest.param(by_tunnel, WORD.encode(), b"hi", bytes.decode, id="TCP"),
    ],
)
async def test_the_last_word_of_a_program_that_hangs_up_on_what_comes_goes_out(passed_on, said, greetings, understood):
    program, near = socket.socketpair()
    far, server = socket.socketpair()
    with near, far, server:
        filling = filled(far)  # so that the word is still under way when it is seen that nobody takes the greetings
        server.sendall(greetings)
        program.sendall(said)
        program.close()
        sent = []

        async def passed():
            sent.append(await passed_on(SocketStream(near), SocketStream(far)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passed)
            await anyio.wait_all_tasks_blocked()
            heard = await anyio.to_thread.run_sync(everything, server)
        assert (understood(heard[filling:]), sent) == (WORD, [len(WORD)])


def everything(sock):
    """All that comes until it ends."""
    data = bytearray()
    while piece := sock.recv(65536):
        data += piece
    return bytes(data)
