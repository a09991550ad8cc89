"""P16: whose connection it is, as the kernel's table tells."""

import os
import socket

from gloveport.server.transports.peers import peer_uids


def test_the_user_of_a_connection_is_known_and_forgotten_once_it_is_closed():
    """A closed socket stands in the table as root's, whoever made it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with server.accept()[0] as connection:
            ends = [(connection.getpeername(), connection.getsockname())]
            assert peer_uids(ends) == [os.geteuid()]
            client.close()
            assert peer_uids(ends) == [None]


def test_a_connection_that_is_not_there_is_nobodys():
    assert peer_uids([(("127.0.0.1", 1), ("127.0.0.1", 2))]) == [None]
