"""ASGI middleware that answers single requests of the handshake protocols without a session, in JSON.

Scripts send them: they call a tool without a handshake, or can't read event streams. All of them are one caller.
"""

from typing import Final

import pydantic_core
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gloveport.fairness import compute
from gloveport.server.transports.message_limit import peek_body

_STREAM: Final = ("text/event-stream", "text/*", "*/*")


class SessionlessRequests(Struct, frozen=True, kw_only=True):
    """Passes requests without a session to another application, except the ``initialize`` of a full client.

    Attributes:
        app: The application with sessions, for all other requests.
        sessionless: The application for single requests.
        most_bytes: So much of a body is looked at; ``app`` refuses longer ones.
    """

    app: ASGIApp
    sessionless: ASGIApp
    most_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if "mcp-session-id" in headers or (version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS):
            await self.app(scope, receive, send)
            return
        body, receive_again = await peek_body(scope, receive, self.most_bytes)
        if "accept" not in headers:  # by RFC 9110 such a client accepts anything
            scope = {**scope, "headers": [*scope["headers"], (b"accept", b"application/json")]}
        reads_streams = any(kind in headers.get("accept", "") for kind in _STREAM)
        is_handshake = reads_streams and await compute(len(body), _is_initialize, body)
        await (self.app if is_handshake else self.sessionless)(scope, receive_again, send)


def _is_initialize(body: bytes) -> bool:
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"
