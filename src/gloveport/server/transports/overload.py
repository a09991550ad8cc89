"""Bounds the number of concurrent HTTP requests: further ones get 503 with Retry-After.

Each open session has some places of its own, and those without a session have others together: so neither new clients
block sessions, nor sessions new clients.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gloveport.server.transports import jsonrpc_errors

_MOST_OF_SESSIONS: Final = 192
_MOST_WITHOUT_SESSION: Final = 64
_OF_EACH_SESSION: Final = 8
_SESSION: Final = b"mcp-session-id"
_RETRY_AFTER: Final = (b"retry-after", b"1")


class RequestLimit(Struct, frozen=True, kw_only=True):
    """ASGI middleware that limits concurrent requests.

    Attributes:
        app: The application.
        is_session: Whether a session of this id is open.
    """

    app: ASGIApp
    is_session: Callable[[str], bool]
    _going: Counter[str] = field(default_factory=Counter)
    """Current requests by session id; those without a session under the empty id."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        named = next((value.decode("latin-1") for name, value in scope["headers"] if name == _SESSION), "")
        session = named if self.is_session(named) else ""
        if not self._has_place(session):
            await _read_to_end(receive)  # closing a socket with unread data resets it, and the answer is lost
            busy = Response(jsonrpc_errors.too_busy(), 503, {"retry-after": "1"}, "application/json")
            await busy(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 503:  # the SDK's: too many sessions
                message = {**message, "headers": [*message.get("headers", ()), _RETRY_AFTER]}
            await send(message)

        self._going[session] += 1
        try:
            await self.app(scope, receive, send_on)
        finally:
            self._going[session] -= 1
            if not self._going[session]:
                del self._going[session]

    def _has_place(self, session: str) -> bool:
        going = self._going.get(session, 0)
        if not session:
            return going < _MOST_WITHOUT_SESSION
        return going < _OF_EACH_SESSION or self._going.total() - self._going.get("", 0) < _MOST_OF_SESSIONS


async def _read_to_end(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
