"""Run as a program of its own, in sandboxes and beside them: asks the bench's far side, and prints what was measured.

    python3 web_client.py NAME PORT ADDRESS KEY MEASURE [NUMBER…]

Goes through the proxy that ``HTTPS_PROXY`` names, else straight to ADDRESS, and wants a certificate of NAME. It does
what every client must, and no more, so that what is on the way is most of what is measured. Prints milliseconds.

- ``small COUNT``: from a request to the whole of its small answer, on one connection; the median.
- ``events COUNT``: from connecting to the first of two events, each time on a new connection; the median.
- ``load CALLERS LEAD-SECONDS WINDOW-SECONDS kept|fresh``: small requests by so many processes at once, on a connection
  that each keeps or on a new one each time: the window over those that ended within it, after the lead.
- ``big``: no milliseconds, but the size of the large answer in bytes.
"""

import http.client
import os
import re
import socket
import ssl
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

_NAME, _PORT, _ADDRESS, _KEY = sys.argv[1:5]
_WARM_UP = 10
_CREDENTIAL = f"Authorization: Bearer {_KEY}\r\n" if _KEY else ""
_TRUST = ssl.create_default_context()
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def connect() -> ssl.SSLSocket:
    """A new connection."""
    proxy = urlsplit(os.environ.get("HTTPS_PROXY", f"//{_ADDRESS}:{_PORT}"))
    sock = socket.create_connection((proxy.hostname, proxy.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy.scheme:
        sock.sendall(f"CONNECT {_ADDRESS}:{_PORT} HTTP/1.1\r\nHost: {_ADDRESS}:{_PORT}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _received(sock)
        if head[9:12] != b"200":
            sys.exit(head.decode())
    return _TRUST.wrap_socket(sock, server_hostname=_NAME)


def request(path: str) -> bytes:
    """A request of this path."""
    return f"GET {path} HTTP/1.1\r\nHost: {_NAME}:{_PORT}\r\nAccept: */*\r\n{_CREDENTIAL}\r\n".encode()


_SMALL = request("/small")


def ask_small(session: ssl.SSLSocket) -> None:
    """Send a request, and receive its answer."""
    session.sendall(_SMALL)
    answer = _received(session)
    while not _is_whole(answer):
        answer += _received(session)
    if answer[9:12] != b"200":
        sys.exit(answer.decode())


def _is_whole(answer: bytes) -> bool:
    end = answer.find(b"\r\n\r\n") + 4
    found = _LENGTH.search(answer, 0, end)
    return end > 4 and found is not None and len(answer) - end >= int(found[1])


def _received(sock: socket.socket) -> bytes:
    return sock.recv(1 << 16) or sys.exit("the connection broke off")


def open_answer(session: ssl.SSLSocket, path: str) -> http.client.HTTPResponse:
    """Send a request, and receive the head of its answer."""
    session.sendall(request(path))
    answer = http.client.HTTPResponse(session)
    answer.begin()
    if answer.status != 200:
        sys.exit(answer.read().decode())
    return answer


def small(count: str) -> float:
    """See the module, as with all of these."""
    session = connect()
    taken = [_milliseconds(lambda: ask_small(session)) for _ in range(_WARM_UP + int(count))]
    return statistics.median(taken[_WARM_UP:])


def events(count: str) -> float:
    """Each event must come by itself."""
    return statistics.median(_first_event() for _ in range(int(count)))


def _first_event() -> float:
    began = time.perf_counter()
    with connect() as session, open_answer(session, "/events") as answer:
        first = answer.readline() + answer.readline()
        taken = time.perf_counter() - began
        rest = answer.read()
    if (first, rest) != (b"data: 1\n\n", b"data: 2\n\n"):
        sys.exit(f"no two events: {first!r} {rest!r}")
    return taken * 1000


def load(callers: str, lead_seconds: str, window_seconds: str, connection: str) -> float:
    """Processes, for they don't wait for one another as threads do."""
    opens = time.monotonic() + float(lead_seconds)
    closes = opens + float(window_seconds)
    reading, writing = os.pipe()
    for _ in range(int(callers)):
        if os.fork() == 0:
            try:
                os.write(writing, b"%d\n" % (_keep if connection == "kept" else _renew)(opens, closes))
            except (OSError, SystemExit) as error:
                print(error, file=sys.stderr, flush=True)
            finally:  # what comes after us in a sandbox speaks to its host
                os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as counts:
        lines = [*counts]
    if len(lines) != int(callers):
        sys.exit("not every caller has come to its end")
    return float(window_seconds) * 1000 / sum(int(line) for line in lines)


def _keep(opens: float, closes: float) -> int:
    session = connect()
    return _ended(lambda: ask_small(session), opens, closes)


def _renew(opens: float, closes: float) -> int:
    def once() -> None:
        with connect() as session:
            ask_small(session)

    return _ended(once, opens, closes)


def _ended(action: Callable[[], None], opens: float, closes: float) -> int:
    ended = 0
    while (now := time.monotonic()) < closes:
        action()
        now = time.monotonic()
        ended += opens <= now < closes
    return ended


def _milliseconds(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def big() -> int:
    """In pieces, as whoever writes it to a file does."""
    size = 0
    with connect() as session, open_answer(session, "/big") as answer:
        while piece := answer.read(1 << 16):
            size += len(piece)
    return size


def main(measure: str, numbers: Sequence[str]) -> None:
    """See the module."""
    measures: dict[str, Callable[..., float]] = {"small": small, "events": events, "load": load, "big": big}
    print(measures[measure](*numbers))


if __name__ == "__main__":
    main(sys.argv[5], sys.argv[6:])
