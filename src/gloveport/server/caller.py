"""Who calls a tool: for the audit log, for fair shares, and for whose approvals count."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request as HttpRequest

Transport: TypeAlias = Literal["stdio", "http"]

_CLAIM_CHARACTERS = 64


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One caller.

    Attributes:
        name: What the client says of itself, for the audit log: nothing is decided by it.
        share: Whose share a run takes, and whose runs and commands are whose. Opaque.
        session: Whose approvals count for the session; empty where nobody is told from others.
    """

    name: str
    share: str
    session: str


def caller_of(ctx: Context[Any, Any], transport: Transport) -> Caller:
    """Who calls."""
    params = ctx.session.client_params
    claim = "" if params is None else f"{params.client_info.name} {params.client_info.version}"
    share = share_of(ctx.request_context, transport)
    session = "" if transport == "http" and share == transport else share
    return Caller(name=_named(transport, claim), share=share, session=session)


def caller_over_stdio(claim: str) -> Caller:
    """Who is at the other end of the pipes, and claims to be this, by name and version."""
    return Caller(name=_named("stdio", claim), share="stdio", session="stdio")


def _named(transport: Transport, claim: str) -> str:
    return f"{transport} (claims to be {claim[:_CLAIM_CHARACTERS]})" if claim else f"{transport} (claims no name)"


def share_of(ctx: ServerRequestContext[Any, Any], transport: Transport) -> str:
    """Whose share a request takes.

    A share is a session of the handshake protocols; all else on a transport is one caller. The SDK has matched the
    header with the session by now, but in the handshake protocols alone: 2026-07-28 knows no sessions and passes over
    the header. Nor is the connection anybody: a client opens one for each of its requests that go on at once, and
    X-Forwarded-For names another.
    """
    if isinstance(ctx.request, HttpRequest) and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return ctx.request.headers["mcp-session-id"]
    return transport
