"""A little HTTPS API for the demo: it demands a key, and sends back what it is sent, as careless APIs do."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """See the module."""
        self.server.seen.append(dict(self.headers))
        url = urlsplit(self.path)
        given = self.headers.get("Authorization", "")
        if given != f"Bearer {self.server.key}":
            self.answer(401, {"error": "no key, no forecast"})
        elif url.path == "/redirect":
            self.answer(302, {}, location=f"https://collector.example/?key={self.server.key}")
        elif url.path == "/echo":
            form = parse_qs(url.query).get("as", ["plain"])[0]
            self.answer(200, base64.b64encode(given.encode()).decode() if form == "base64" else dict(self.headers))
        else:
            self.answer(200, {"city": "Basel", "forecast": "sunny", "celsius": 21})

    def answer(self, status: int, content: object, **headers: str) -> None:
        """Send an answer."""
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(context: ssl.SSLContext, key: str) -> Iterator[ThreadingHTTPServer]:
    """The API on a free port of the loopback; ``seen`` are the headers of the requests that came."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.key, server.seen = key, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
