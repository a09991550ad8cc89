"""Identifies who calls a tool: for the audit log, fair shares and approvals."""

from typing import Literal, TypeAlias

from msgspec import Struct

Transport: TypeAlias = Literal["stdio", "http"]

_CLAIM_CHARACTERS = 64


class Caller(Struct, frozen=True, kw_only=True):
    """One caller.

    Attributes:
        name: What the client says of itself, for the audit log: nothing is decided by it.
        share: Whose share a run takes, and whose runs and commands are whose. Opaque.
        session: Whose approvals count for the session; empty where nobody is told from others.
    """

    name: str
    share: str
    session: str


def caller_name(transport: Transport, claim: str) -> str:
    """What the audit log calls a client that claims to be this, by name and version."""
    return f"{transport} (claims to be {claim[:_CLAIM_CHARACTERS]})" if claim else f"{transport} (claims no name)"


def caller_over_stdio(claim: str) -> Caller:
    """Who is at the other end of the pipes, and claims to be this."""
    return Caller(name=caller_name("stdio", claim), share="stdio", session="stdio")
