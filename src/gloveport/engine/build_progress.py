"""What builds of environments tell of how far they are."""

from collections.abc import Callable
from typing import TypeAlias

OnProgress: TypeAlias = Callable[[str], None]
"""Is told what is being done. Must not wait."""


def no_progress(_what: str) -> None:
    """An ``OnProgress`` that tells nobody."""
