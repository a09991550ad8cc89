"""Reads and writes files in few threads of their own, and holds few large ones: others get threads and memory too.

A file of a gigabyte takes seconds to read, a large change seconds to write, while others wait for the lock.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar, TypeVarTuple

from anyio.lowlevel import RunVar

from gloveport.fairness import OwnThreads
from gloveport.limits.admission import AdmissionQueue, make_turns

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class CallerTurns:
    """Few places for one kind of work, at which callers take turns."""

    def __init__(self, name: str, count: int) -> None:
        """``name``: of the kind of work, as no other has it."""
        self._count = count
        self._of_loop = RunVar[AdmissionQueue](f"gloveport.workspace.files: turns at {name}")

    def place(self, caller: str) -> AbstractAsyncContextManager[None]:
        """A place to hold as long as the work goes on."""
        queue = self._of_loop.get(None)
        if queue is None:
            queue = make_turns(self._count)
            self._of_loop.set(queue)
        return queue.place(caller)


class ThreadsInTurn:
    """Few threads for work that may take seconds: much of one caller keeps no other waiting until all of it is done."""

    def __init__(self, name: str, count: int) -> None:
        """``name``: of the kind of work, as no other has it."""
        self._turns = CallerTurns(name, count)
        self._threads = OwnThreads(name, count)

    async def run(self, caller: str, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Call ``work`` in one of them, when it is the turn of ``caller``."""
        async with self._turns.place(caller):
            return await self._threads.run(work, *arguments)


FILE_READS: Final = OwnThreads("reads of files", 8)
"""For reads of names too."""
LARGE_READS: Final = ThreadsInTurn("reads of large files", 2)
"""No small file waits for one of these."""
FILE_SEARCHES: Final = ThreadsInTurn("searches of files", 4)
"""For what a search compares with rules and globs, which may take seconds."""
FILE_WRITES: Final = ThreadsInTurn("writes of files", 4)
"""For a change of files, or for what it would do. Changes take turns anyway."""
HELD_FILES: Final = CallerTurns("large files in memory", 2)
"""For whoever holds a large file: each may have 32 MiB; further callers wait without one."""
