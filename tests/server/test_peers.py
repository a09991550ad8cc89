"""P16: whose connection it is, as the kernel's table tells."""

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys

import anyio
import pytest

from gloveport.server.transports import peers
from gloveport.server.transports.acceptor import accept_connections
from gloveport.server.transports.peers import has_closed, peer_uids, require_own_uid

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
            assert peer_uids([connection]) == [os.geteuid()]
            client.close()
            assert peer_uids([connection]) == [None]


@pytest.mark.usefixtures("kernel")
def test_who_only_sends_no_more_has_not_closed_a_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with server.accept()[0] as connection:
            assert not has_closed(connection)
            client.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
            assert not has_closed(connection)
            client.close()
            assert has_closed(connection)


@pytest.mark.usefixtures("kernel")
def test_a_connection_that_is_not_there_is_nobodys():
    assert peers._look_up([(("127.0.0.1", 1), ("127.0.0.1", 2))]) == [None]


def test_a_listening_socket_is_taken_for_no_connection():
    """The kernel finds it where the peer has gone, and its port listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert peers._look_up([(server.getsockname(), ("127.0.0.1", 2))]) == [None]


def connect_and_reset(address):
    """What is sent before can be read all the same. Returns its own address, which is free again, and which no test
    beside this one takes meanwhile.
    """
    with socket.create_connection(address, source_address=("127.83.0.1", 0)) as client:
        client.sendall(b"a request")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return client.getsockname()


@pytest.mark.usefixtures("kernel")
def test_a_reset_connection_is_nobodys_though_another_comes_from_its_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        own_address = connect_and_reset(server.getsockname())
        with (
            socket.create_connection(server.getsockname(), source_address=own_address),
            server.accept()[0] as reset,
            server.accept()[0] as connection,
        ):
            assert reset.recv(9) == b"a request"
            assert peer_uids([reset, connection]) == [None, os.geteuid()]


def test_nobody_of_a_container_is_refused_as_the_kernel_names_all_of_the_hosts_users_so():
    """P16."""
    code = "from gloveport.server.transports.peers import require_own_uid; require_own_uid()"
    for uid, is_refused in (("1000", False), ("65534", True)):
        command = ["unshare", "--user", "--map-user", uid, sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "uid 65534 stands for" in done.stderr) == (int(is_refused), is_refused), done.stderr
    require_own_uid()


@pytest.mark.anyio
async def test_a_reset_connection_takes_no_other_one_with_it(caplog):
    """P16: any user of this host can make one, at any moment."""
    accepted, are_both_accepted = [], anyio.Event()

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport):
            accepted.append(transport.get_extra_info("peername"))
            if len(accepted) == 2:
                are_both_accepted.set()

    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        server.settimeout(0)
        clients = []
        for _ in range(2):
            clients.append(stack.enter_context(socket.create_connection(server.getsockname())))
            connect_and_reset(server.getsockname())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept_connections, server, Accepted)
            with anyio.fail_after(20):
                await are_both_accepted.wait()
            tasks.cancel_scope.cancel()
        assert accepted == [client.getsockname() for client in clients]
    assert not caplog.records


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
