"""Reads and writes files in few threads of their own, and holds few large ones: others get threads and memory too.

A file of a gigabyte takes seconds to read, a large change seconds to write, while others wait for the lock.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from anyio.lowlevel import RunVar

from gloveport.fairness import OwnThreads
from gloveport.limits.admission import AdmissionQueue, make_turns

_READS: Final = OwnThreads("reads of files", 8)
_LARGE_READS: Final = OwnThreads("reads of large files", 2)
_SEARCHES: Final = OwnThreads("searches of files", 4)
_WRITES: Final = OwnThreads("writes of files", 4)
_LARGE_AT_ONCE: Final = 2
"""Each may hold 32 MiB; further callers wait without a file."""

_held_large: RunVar[AdmissionQueue] = RunVar("gloveport.workspace.files: held large files")

Result = TypeVar("Result")


async def read_in_thread(work: Callable[[], Result]) -> Result:
    """Call ``work``, which reads files or names, in a thread."""
    return await _READS.run(work)


async def read_large_in_thread(work: Callable[[], Result]) -> Result:
    """The same for a large file, for which no small one waits."""
    return await _LARGE_READS.run(work)


async def search_in_thread(work: Callable[[], Result]) -> Result:
    """The same for what a search compares with rules and globs, which may take seconds."""
    return await _SEARCHES.run(work)


async def write_in_thread(work: Callable[[], Result]) -> Result:
    """The same for a change of files, or for what it would do. Changes take turns anyway."""
    return await _WRITES.run(work)


def take_turn(caller: str) -> AbstractAsyncContextManager[None]:
    """A place to hold as long as a large file; callers take turns."""
    queue = _held_large.get(None)
    if queue is None:
        queue = make_turns(_LARGE_AT_ONCE)
        _held_large.set(queue)
    return queue.place(caller)
