"""Tells who calls a tool, by the request of an MCP client."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request as HttpRequest

from gloveport.engine.caller import Caller, Transport, caller_name


def caller_of(ctx: Context[Any, Any], transport: Transport) -> Caller:
    """Who calls."""
    params = ctx.session.client_params
    claim = "" if params is None else f"{params.client_info.name} {params.client_info.version}"
    share = share_of(ctx.request_context, transport)
    session = "" if transport == "http" and share == transport else share
    return Caller(name=caller_name(transport, claim), share=share, session=session)


def share_of(ctx: ServerRequestContext[Any, Any], transport: Transport) -> str:
    """Whose share a request takes.

    A share is a session of the handshake protocols; all else on a transport is one caller, single requests of these
    protocols among it. The SDK has matched the
    header with the session by now, but in the handshake protocols alone: 2026-07-28 knows no sessions and passes over
    the header. Nor is the connection anybody: a client opens one for each of its requests that go on at once, and
    X-Forwarded-For names another.
    """
    if isinstance(ctx.request, HttpRequest) and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return ctx.request.headers.get("mcp-session-id", transport)
    return transport
