"""Lets few callers hold a large file at a time: each may have 32 MiB, and whoever else asks waits without one."""

from typing import Final

from anyio import Semaphore
from anyio.lowlevel import RunVar

_AT_ONCE: Final = 2

_turns: Final = RunVar[Semaphore]("gloveport.workspace.files.large_files")
"""Of each event loop."""


def take_turn() -> Semaphore:
    """What to hold as long as the file is held."""
    try:
        return _turns.get()
    except LookupError:
        turns = Semaphore(_AT_ONCE)
        _turns.set(turns)
        return turns
