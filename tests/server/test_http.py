"""The socket that HTTP is served on."""

import socket

from gloveport.server.transports.http import _listen


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_beginning():
    with _listen(0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
