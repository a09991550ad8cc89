"""Garbage is collected when all is imported: to look through that takes a tenth of a start."""

import gc


def collect_later() -> None:
    """Collect none until ``collect_from_now_on``."""
    gc.disable()


def collect_from_now_on() -> None:
    """Collect what becomes garbage, and never look through what is there by now."""
    gc.freeze()
    gc.enable()
