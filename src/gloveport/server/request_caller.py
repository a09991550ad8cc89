"""Identifies the caller of a tool by the MCP request."""

import hashlib
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request as HttpRequest

from gloveport.engine.caller import Caller, Transport, caller_name
from gloveport.late_pattern import late_pattern

_CLIENT: Final = "gloveport-client"
"""The header of a client that can't be told from others by a session: a secret that it has made for itself."""

_SECRET: Final = late_pattern(r"[!-~]{32,256}")


def caller_of(ctx: Context[Any, Any], transport: Transport) -> Caller:
    """Identify the caller.

    Raises:
        MCPError: As ``share_of``.
    """
    params = ctx.session.client_params
    claim = "" if params is None else f"{params.client_info.name} {params.client_info.version}"
    share = share_of(ctx.request_context, transport)
    session = "" if transport == "http" and share == transport else share
    return Caller(name=caller_name(transport, claim), share=share, session=session)


def share_of(ctx: ServerRequestContext[Any, Any], transport: Transport) -> str:
    """Return the share that a request counts towards.

    A session of the handshake protocols is a share of its own, and so are requests without a session that have the
    same secret in a header. All other requests on a transport share one, single requests of these protocols included.
    The SDK has checked the session header by now, but only in the handshake protocols: 2026-07-28 has no sessions and
    ignores the header. A connection identifies nobody: a client opens several at once, and X-Forwarded-For could claim
    any address.

    Raises:
        MCPError: The secret could be guessed.
    """
    if not isinstance(ctx.request, HttpRequest):
        return transport
    headers = ctx.request.headers
    if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and "mcp-session-id" in headers:
        return headers["mcp-session-id"]
    secret = headers.get(_CLIENT)
    if secret is None:
        return transport
    if not _SECRET.fullmatch(secret):
        raise MCPError(INVALID_REQUEST, f"{_CLIENT} has to be a secret of 32 to 256 characters, without spaces")
    return f"{transport}-{hashlib.sha256(secret.encode()).hexdigest()}"


def has_session(share: str) -> bool:
    """Whether a share of a request over HTTP is that of a session, which ends."""
    return share.partition("-")[0] != "http"
