"""Lets few callers hold a large file at a time: each may have 32 MiB, and further callers wait without one."""

from typing import Final

from anyio import Semaphore
from anyio.lowlevel import RunVar

_AT_ONCE: Final = 2

_turns: Final = RunVar[Semaphore]("gloveport.workspace.files.large_files")
"""The limiter of each event loop."""


def take_turn() -> Semaphore:
    """A limiter to hold as long as the file."""
    try:
        return _turns.get()
    except LookupError:
        turns = Semaphore(_AT_ONCE)
        _turns.set(turns)
        return turns
