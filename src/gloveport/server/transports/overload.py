"""Bounds the number of concurrent HTTP requests: further ones get 503 with Retry-After.

Each open session has some places of its own, and those without a session have others together: so neither new clients
block sessions, nor sessions new clients. Subscriptions of 2026-07-28, which have no end, have places apart.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gloveport.server.transports import jsonrpc_errors

_MOST_OF_SESSIONS: Final = 192
_LISTEN: Final = "subscriptions/listen"
_MOST_OF_OTHERS: Final = {"": 64, _LISTEN: 64}
_OF_EACH_SESSION: Final = 8
_SESSION: Final = b"mcp-session-id"
_METHOD: Final = b"mcp-method"
"""The SDK refuses a request of another method than this header names."""

_RETRY_AFTER: Final = (b"retry-after", b"1")


class RequestLimit(Struct, frozen=True, kw_only=True):
    """ASGI middleware that limits concurrent requests.

    Attributes:
        is_session: Whether a session of this id is open.
    """

    app: ASGIApp
    is_session: Callable[[str], bool]
    _going: Counter[str] = field(default_factory=Counter)
    """Current requests by session id; those without a session by the keys of ``_MOST_OF_OTHERS``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        share = self._share_of(scope)
        if not self._has_place(share):
            await _read_to_end(receive)  # closing a socket with unread data resets it, and the answer is lost
            busy = Response(jsonrpc_errors.TOO_BUSY, 503, {"retry-after": "1"}, "application/json")
            await busy(scope, receive, send)
            return

        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start" and message["status"] == 503:  # the SDK's: too many sessions
                message = {**message, "headers": [*message.get("headers", ()), _RETRY_AFTER]}
            await send(message)

        self._going[share] += 1
        try:
            await self.app(scope, receive, send_on)
        except asyncio.CancelledError:  # the server ends
            if not has_begun:
                ending = Response(jsonrpc_errors.ENDING, 503, {"retry-after": "1"}, "application/json")
                await ending(scope, receive, send)
            raise
        except ClientDisconnect:  # amid its request: nobody reads an answer
            pass
        finally:
            self._going[share] -= 1
            if not self._going[share]:
                del self._going[share]

    def _share_of(self, scope: Scope) -> str:
        session = next((value.decode("latin-1") for name, value in scope["headers"] if name == _SESSION), "")
        if self.is_session(session):
            return session
        return _LISTEN if (_METHOD, _LISTEN.encode()) in scope["headers"] else ""

    def _has_place(self, share: str) -> bool:
        going = self._going.get(share, 0)
        if share in _MOST_OF_OTHERS:
            return going < _MOST_OF_OTHERS[share]
        others = sum(self._going.get(other, 0) for other in _MOST_OF_OTHERS)
        return going < _OF_EACH_SESSION or self._going.total() - others < _MOST_OF_SESSIONS


async def _read_to_end(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
