"""P16: whose connection it is, as the kernel's table tells."""

import os
import socket

import anyio
import pytest

from gloveport.server.transports import peers
from gloveport.server.transports.acceptor import accept_connections
from gloveport.server.transports.peers import peer_uids

FOREIGN = """
import os, socket, sys
os.setgid(65533); os.setuid(65533)
for _ in range(3):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        try:
            connection.recv(1)
        except ConnectionError:
            pass
"""


@pytest.fixture(params=["asked", "table"])
def kernel(request, monkeypatch):
    """A kernel that can be asked for a socket, whose table nobody needs; and one that has only the table."""
    if request.param == "asked":
        monkeypatch.setattr(peers, "_TABLE", None)
    else:
        monkeypatch.setattr(peers, "_NETLINK_SOCK_DIAG", 1 << 10)
    peers._can_ask.cache_clear()
    yield
    peers._can_ask.cache_clear()


@pytest.mark.usefixtures("kernel")
def test_the_user_of_a_connection_is_known_and_forgotten_once_it_is_closed():
    """A closed socket stands in the table as root's, whoever made it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with server.accept()[0] as connection:
            ends = [(connection.getpeername(), connection.getsockname())]
            assert peer_uids(ends) == [os.geteuid()]
            client.close()
            assert peer_uids(ends) == [None]


@pytest.mark.usefixtures("kernel")
def test_a_connection_that_is_not_there_is_nobodys():
    assert peer_uids([(("127.0.0.1", 1), ("127.0.0.1", 2))]) == [None]


def test_a_listening_socket_is_taken_for_no_connection():
    """The kernel finds it where the peer has gone, and its port listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert peer_uids([(server.getsockname(), ("127.0.0.1", 2))]) == [None]


@pytest.mark.anyio
@pytest.mark.usefixtures("kernel")
async def test_the_operator_is_told_once_whose_connections_are_closed(caplog):
    """Only root can try it: it takes two users."""
    if os.geteuid() != 0:
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept_connections, server, anyio.Event)
            await anyio.run_process(["/usr/bin/python3", "-I", "-c", FOREIGN, str(server.getsockname()[1])])
            tasks.cancel_scope.cancel()
    (record,) = caplog.records
    assert record.getMessage() == "connections of uid 65533 are closed unread: only uid 0 and root are served"
