"""Reads and writes files in few threads of their own, and holds few large ones: others get threads and memory too.

A file of a gigabyte takes seconds to read, a large change seconds to write, while others wait for the lock.
"""

from contextlib import AbstractAsyncContextManager
from typing import Final

from anyio.lowlevel import RunVar

from gloveport.fairness import OwnThreads
from gloveport.limits.admission import AdmissionQueue, make_turns

FILE_READS: Final = OwnThreads("reads of files", 8)
"""For reads of names too."""
LARGE_READS: Final = OwnThreads("reads of large files", 2)
"""No small file waits for one of these."""
FILE_SEARCHES: Final = OwnThreads("searches of files", 4)
"""For what a search compares with rules and globs, which may take seconds."""
FILE_WRITES: Final = OwnThreads("writes of files", 4)
"""For a change of files, or for what it would do. Changes take turns anyway."""
_LARGE_AT_ONCE: Final = 2
"""Each may hold 32 MiB; further callers wait without a file."""

_held_large: RunVar[AdmissionQueue] = RunVar("gloveport.workspace.files: held large files")


def take_turn(caller: str) -> AbstractAsyncContextManager[None]:
    """A place to hold as long as a large file; callers take turns."""
    queue = _held_large.get(None)
    if queue is None:
        queue = make_turns(_LARGE_AT_ONCE)
        _held_large.set(queue)
    return queue.place(caller)
