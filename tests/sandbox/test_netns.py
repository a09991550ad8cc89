"""What the host takes for doors: these sockets and no others, whoever sends them."""

import contextlib
import socket
from io import FileIO
from pathlib import Path

import pytest

from gloveport.errors import GuestError
from gloveport.sandbox.run import frames

pytestmark = pytest.mark.anyio


def listener(address="127.0.0.1", family=socket.AF_INET):
    made = socket.socket(family)
    made.bind((address, 0))
    made.listen()
    return made


def no_listener():
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


def datagrams():
    made = socket.socket(type=socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


def held():
    """How many descriptors this process has."""
    return len([*Path("/proc/self/fd").iterdir()])


async def received(sent, doors):
    """What comes of these sockets where those doors are to come; on leaving, all is closed."""
    with contextlib.ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        for one in sent:
            stack.enter_context(one)
        ours.settimeout(0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        socket.send_fds(theirs, [b"\0"], [one.fileno() for one in sent])
        theirs.close()
        found = await frames.receive_network(ours, doors, (), stack)
        return [(one.getsockname(), one.getblocking()) for one in found.doors]


@pytest.mark.parametrize("count", [1, 2, 3, 100, 253])
async def test_doors_come_in_their_order(count):
    """N1: and leave no descriptor behind."""
    before = held()
    listeners = [listener() for _ in range(count)]
    doors = [one.getsockname() for one in listeners]
    assert await received(listeners, doors) == [(door, False) for door in doors]
    assert held() == before


@pytest.mark.parametrize(("sent", "wanted"), [(0, 1), (1, 2), (2, 1), (4, 3), (20, 1)])
async def test_more_or_fewer_are_refused(sent, wanted):
    """N1."""
    before = held()
    listeners = [listener() for _ in range(sent)]
    doors = [("127.0.0.1", 1)] * wanted
    with pytest.raises(GuestError, match=f"where {wanted} were to come"):
        await received(listeners, doors)
    assert held() == before


@pytest.mark.parametrize("make", [no_listener, datagrams, lambda: listener("127.0.0.9")])
async def test_what_does_not_listen_where_it_should_is_refused(make):
    """N1."""
    before = held()
    other = make()
    door = ("127.0.0.1", other.getsockname()[1])
    with pytest.raises(GuestError, match=f"does not listen at 127.0.0.1:{door[1]}"):
        await received([other], [door])
    assert held() == before


async def test_a_listener_of_the_new_protocol_is_refused():
    """N1: IPv6 has no door."""
    other = listener("::ffff:127.0.0.1", socket.AF_INET6)
    with pytest.raises(GuestError, match="does not listen"):
        await received([other], [("127.0.0.1", other.getsockname()[1])])


async def test_what_is_no_socket_is_refused():
    """N1: and closed."""
    before = held()
    with pytest.raises(OSError, match="non-socket"):
        await received([FileIO("/dev/null")], [("127.0.0.1", 80)])
    assert held() == before
