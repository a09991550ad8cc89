"""Decides which clients get structured content without asking for it."""

from collections.abc import Sequence

from gloveport.policy.wildcards import matches


def reads_structured(clients: Sequence[str], name: str) -> bool:
    """Whether a client of this name gets structured content. Anybody can claim a name, so it decides nothing else."""
    return any(matches(pattern, name) for pattern in clients)
