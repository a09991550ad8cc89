"""Reads and writes files in few threads of their own, and holds few large ones: others get threads and memory too.

A file of a gigabyte takes seconds to read, a large change seconds to write, while others wait for the lock. Forty such
calls would take all threads that a server has.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

_THREADS: Final = 8
_THREADS_OF_LARGE: Final = 2
_THREADS_OF_WRITES: Final = 4
_HOLDERS_OF_LARGE: Final = 2
"""Each may hold 32 MiB; further callers wait without a file."""

_limiter: Final = RunVar[CapacityLimiter]("gloveport.workspace.files.file_threads")
_limiter_of_large: Final = RunVar[CapacityLimiter]("gloveport.workspace.files.file_threads: large files")
_limiter_of_writes: Final = RunVar[CapacityLimiter]("gloveport.workspace.files.file_threads: writes")
_holders_of_large: Final = RunVar[CapacityLimiter]("gloveport.workspace.files.file_threads: held large files")

Result = TypeVar("Result")


async def read_in_thread(work: Callable[[], Result]) -> Result:
    """Call ``work``, which reads files or names, in a thread."""
    return await to_thread.run_sync(work, limiter=_limiter_in(_limiter, _THREADS))


async def read_large_in_thread(work: Callable[[], Result]) -> Result:
    """The same for a large file, for which no small one waits."""
    return await to_thread.run_sync(work, limiter=_limiter_in(_limiter_of_large, _THREADS_OF_LARGE))


async def write_in_thread(work: Callable[[], Result]) -> Result:
    """The same for a change of files, or for what it would do. Changes take turns anyway."""
    return await to_thread.run_sync(work, limiter=_limiter_in(_limiter_of_writes, _THREADS_OF_WRITES))


def take_turn() -> CapacityLimiter:
    """A limiter to hold as long as a large file."""
    return _limiter_in(_holders_of_large, _HOLDERS_OF_LARGE)


def _limiter_in(variable: RunVar[CapacityLimiter], most: int) -> CapacityLimiter:
    """The limiter of this event loop."""
    limiter = variable.get(None)
    if limiter is None:
        limiter = CapacityLimiter(most)
        variable.set(limiter)
    return limiter
