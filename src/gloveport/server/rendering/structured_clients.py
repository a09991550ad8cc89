"""Which clients get structured content without asking for it."""

from collections.abc import Sequence

from gloveport.policy.wildcards import matches


def reads_structured(clients: Sequence[str], name: str) -> bool:
    """Whether a client of this name is one whose programs read it. It is only a name: nothing else is decided by it."""
    return any(matches(pattern, name) for pattern in clients)
