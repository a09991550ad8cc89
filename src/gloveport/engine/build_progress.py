"""Progress messages of environment builds."""

from collections.abc import Callable
from typing import TypeAlias

OnProgress: TypeAlias = Callable[[str], None]
"""Hears what is being done. Must not wait."""


def no_progress(_what: str) -> None:
    """An ``OnProgress`` that does nothing."""
