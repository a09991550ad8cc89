"""Identifies the caller of a tool by the MCP request."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request as HttpRequest

from gloveport.engine.caller import Caller, Transport, caller_name


def caller_of(ctx: Context[Any, Any], transport: Transport) -> Caller:
    """Identify the caller."""
    params = ctx.session.client_params
    claim = "" if params is None else f"{params.client_info.name} {params.client_info.version}"
    share = share_of(ctx.request_context, transport)
    session = "" if transport == "http" and share == transport else share
    return Caller(name=caller_name(transport, claim), share=share, session=session)


def share_of(ctx: ServerRequestContext[Any, Any], transport: Transport) -> str:
    """Return the share that a request counts towards.

    A session of the handshake protocols is a share of its own. All other requests on a transport share one, single
    requests of these protocols included. The SDK has checked the session header by now, but only in the handshake
    protocols: 2026-07-28 has no sessions and ignores the header. A connection identifies nobody: a client opens several
    at once, and X-Forwarded-For could claim any address.
    """
    if isinstance(ctx.request, HttpRequest) and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return ctx.request.headers.get("mcp-session-id", transport)
    return transport
