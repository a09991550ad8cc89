"""``python -m tests.projects.stand_ins CERTIFICATE``: serves the stand-in registries, to whoever reaches this host.

Says what GOSUMDB has to be when it listens, and ends with its standard input.
"""

import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.projects.stand_ins import crates, golang, maven

_REGISTRIES = {host: registry.answer for registry in (crates, golang, maven) for host in registry.HOSTS}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        registry = _REGISTRIES.get(self.headers["host"])
        content = registry and registry(self.headers["host"], urlsplit(self.path).path)
        match content:
            case bytes():
                self.send_response(200)
            case str():
                self.send_response(302)
                self.send_header("location", content)
            case None:
                self.send_response(404)
        body = content if isinstance(content, bytes) else b""
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """See the module."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    server = ThreadingHTTPServer(("", 443), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(golang.CHECKSUMS.verifier, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
