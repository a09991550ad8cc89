"""ASGI middleware that answers requests of the handshake protocols which come without a session, one by one, in JSON.

Scripts send such: they call a tool and nothing before, or can read JSON alone. All of them together are one caller.
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
    """Looks at the bodies of requests without a session.

    Attributes:
        app: Keeps sessions, and answers whatever else there is.
        sessionless: Answers single requests.
        most_bytes: So many are looked at; ``app`` refuses what is longer.
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
        if "accept" not in headers:  # whoever says nothing takes anything
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
