"""A server of a few lines on the loopback interface, for whatever answers to whole requests over HTTP."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WholeAnswers(BaseHTTPRequestHandler):
    """Answers with a body that is there at once, and tells nobody."""

    protocol_version = "HTTP/1.1"

    def answer(self, body: bytes, kind: str = "application/json", status: int = 200) -> None:
        """Send it."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args) -> None:
        """See ``http.server``."""


@contextlib.contextmanager
def answering(handler: type[WholeAnswers]) -> Iterator[int]:
    """Serve: its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
