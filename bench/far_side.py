"""Run as a program of its own: the server that is asked, over HTTPS. As fast as is simple: a thread for a connection.

    python -m bench.far_side ADDRESS NAME KEY CA-FILE

writes the certificate of its authority to CA-FILE and prints its port. Whoever does not bring the key gets a 401.

- ``/small``: a kilobyte of JSON.
- ``/events``: two server-sent events, one at once and one a moment later.
- ``/big``: a gigabyte (2^30) of JSON lines, whose last bytes are the key.
"""

import json
import re
import socket
import socketserver
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from gloveport.egress.transport.ca import CertificateAuthority

BIG_BYTES = 1 << 30
_LINE = b'{"id": 1234567, "name": "a line like others", "price": 12.5, "tags": ["one", "two"]}\n'
_BLOCK = (_LINE * 800)[: 1 << 16]
_MOMENT_SECONDS = 0.03
_CREDENTIAL = re.compile(rb"\r\nauthorization: bearer ([^\r]*)\r\n", re.IGNORECASE)


def head(status: bytes, kind: bytes, framing: bytes) -> bytes:
    """The head of an answer."""
    return b"HTTP/1.1 %s\r\nContent-Type: %s\r\n%s\r\n\r\n" % (status, kind, framing)


def whole(status: bytes, content: bytes) -> bytes:
    """An answer that is there at once."""
    return head(status, b"application/json", b"Content-Length: %d" % len(content)) + content


_SMALL = whole(b"200 OK", json.dumps({"items": [{"id": number, "name": "x" * 40} for number in range(15)]}).encode())
_REFUSAL = whole(b"401 Unauthorized", b'{"error": "no key"}')


class Responder(socketserver.BaseRequestHandler):
    """One connection. It knows no request with a body."""

    authority: ClassVar[CertificateAuthority] = CertificateAuthority()
    name: ClassVar[str]
    key: ClassVar[bytes]

    def handle(self) -> None:
        """Answer until it is over."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self.authority.context(self.name).wrap_socket(self.request, server_side=True) as session:
                asked = b""
                while data := session.recv(1 << 16):
                    asked += data
                    while (end := asked.find(b"\r\n\r\n") + 4) > 4:
                        for piece in self._answer(asked[:end]):
                            session.sendall(piece)
                        asked = asked[end:]
        except OSError:  # whoever asked has gone
            pass

    def _answer(self, asked: bytes) -> Iterator[bytes]:
        credential = _CREDENTIAL.search(asked)
        if credential is None or credential[1] != self.key:
            yield _REFUSAL
        elif asked.startswith(b"GET /events "):
            yield head(b"200 OK", b"text/event-stream", b"Transfer-Encoding: chunked") + b"9\r\ndata: 1\n\n\r\n"
            time.sleep(_MOMENT_SECONDS)
            yield b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        elif asked.startswith(b"GET /big "):
            yield head(b"200 OK", b"application/x-ndjson", b"Content-Length: %d" % BIG_BYTES)
            for _ in range(BIG_BYTES // len(_BLOCK) - 1):
                yield _BLOCK
            yield _BLOCK[: -len(self.key)] + self.key
        else:
            yield _SMALL


class Server(socketserver.ThreadingTCPServer):
    """Many connections at once."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """See the module."""
    address, Responder.name, key, ca_file = sys.argv[1:]
    Responder.key = key.encode()
    Path(ca_file).write_text(Responder.authority.certificate)
    with Server((address, 0), Responder) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
