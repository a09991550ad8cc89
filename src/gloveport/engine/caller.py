"""Identifies who calls a tool: for the audit log, fair shares and approvals."""

from typing import Literal, TypeAlias

from msgspec import Struct

Transport: TypeAlias = Literal["stdio", "http"]

_CLAIM_CHARACTERS = 64


class Caller(Struct, frozen=True, kw_only=True):
    """One caller.

    Attributes:
        name: The client's own claim, for the audit log: no decision depends on it.
        share: Identifies the owner of runs and commands, and of the fair share that a run takes. Opaque.
        session: Identifies the session whose approvals count; empty where sessions can't be told apart.
    """

    name: str
    share: str
    session: str


def caller_name(transport: Transport, claim: str) -> str:
    """The audit log's name for a client that claims this name and version."""
    return f"{transport} (claims to be {claim[:_CLAIM_CHARACTERS]})" if claim else f"{transport} (claims no name)"


def caller_over_stdio(claim: str) -> Caller:
    """The caller at the other end of the pipes, which claims to be this client."""
    return Caller(name=caller_name("stdio", claim), share="stdio", session="stdio")
