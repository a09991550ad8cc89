"""Receives the browser's redirect after a login (RFC 8252, 7.3), on a port of 127.0.0.1.

Anybody on this host, and any web page, can send requests to this port. A request without the state of the waiting login
is refused; the first one with it ends the waiting.
"""

import contextlib
import functools
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from urllib.parse import parse_qsl

import anyio
from anyio.abc import ByteStream, SocketAttribute
from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Struct, field

from gloveport.errors import UpstreamError
from gloveport.task_group import open_task_group

_HOST = "127.0.0.1"
_PATH = "/callback"
_MOST_BYTES = 16 * 1024
_SECONDS = 10
_MOST_CONNECTIONS = 64
_ERROR_CODE = re.compile(r"[a-z][a-z_]{1,39}")

_PAGE = """\
HTTP/1.1 {status}\r
content-type: text/plain; charset=utf-8\r
content-security-policy: default-src 'none'\r
referrer-policy: no-referrer\r
cache-control: no-store\r
x-content-type-options: nosniff\r
connection: close\r
content-length: {length}\r
\r
{text}"""


class Callback(Struct, eq=False):
    """The one redirect that a login waits for.

    Attributes:
        uri: The redirect URI.
        state: The ``state`` that the redirect has to carry; until it is set every request is refused.
    """

    uri: str
    state: str = ""
    _query: dict[str, str] = field(default_factory=dict)
    _arrival: anyio.Event = field(default_factory=anyio.Event)
    _connections: dict[anyio.CancelScope, None] = field(default_factory=dict)
    """The open connections, the oldest first."""

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for the answer. Raises UpstreamError if the authorization server says no."""
        await self._arrival.wait()
        query = self._query
        if "code" not in query:
            code = query.get("error", "")
            raise UpstreamError(
                "login_refused",
                f"The authorization server refuses the login: {code if _ERROR_CODE.fullmatch(code) else 'no reason'}.",
                hint="allow it in the browser, with an account that may",
            )
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query.get("iss"))

    @contextlib.contextmanager
    def connection(self) -> Iterator[None]:
        """The context of one connection; the oldest is cancelled for it if there are too many.

        Else anybody who keeps many open would leave no descriptor for the browser's.
        """
        if len(self._connections) >= _MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        with anyio.CancelScope() as scope:
            self._connections[scope] = None
            try:
                yield
            finally:
                self._connections.pop(scope, None)

    def is_answer(self, query: Mapping[str, str]) -> bool:
        """Whether these parameters are the redirect that is waited for."""
        state = query.get("state", "").encode()
        return bool(self.state) and secrets.compare_digest(state, self.state.encode())

    def take(self, query: Mapping[str, str]) -> None:
        """Take the answer. Only the first counts."""
        if not self._arrival.is_set():
            self._query = dict(query)
            self._arrival.set()


@contextlib.asynccontextmanager
async def callback() -> AsyncIterator[Callback]:
    """Listen for the browser until the context is left."""
    async with await anyio.create_tcp_listener(local_host=_HOST, local_port=0) as listener:
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
        waiting = Callback(uri=f"http://{_HOST}:{port}{_PATH}")
        async with open_task_group() as tasks:
            tasks.start_soon(listener.serve, functools.partial(_serve, waiting))
            yield waiting


async def _serve(waiting: Callback, stream: ByteStream) -> None:
    async with stream:
        with waiting.connection(), contextlib.suppress(TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
            with anyio.fail_after(_SECONDS):
                query = _query(await _request_line(stream))
                if not waiting.is_answer(query):
                    await stream.send(_page("400 Bad Request", "This is not the answer to the login that waits here."))
                    return
                await stream.send(
                    _page("200 OK", "This page may be closed. The terminal says how the login has ended.")
                )
                waiting.take(query)


async def _request_line(stream: ByteStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_BYTES:
        head += await stream.receive()
    return head.partition(b"\r\n")[0]


def _page(status: str, text: str) -> bytes:
    return _PAGE.format(status=status, length=len(text), text=text).encode()


def _query(line: bytes) -> dict[str, str]:
    """Read the parameters of a request; none if it has another path, or a parameter twice, which would be ambiguous."""
    match line.split(b" "):
        case [b"GET", target, b"HTTP/1.1" | b"HTTP/1.0"]:
            path, _, query = target.decode("ascii", "replace").partition("?")
        case _:
            return {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=32) if path == _PATH else []
    except ValueError:
        return {}
    return dict(pairs) if len(dict(pairs)) == len(pairs) else {}
