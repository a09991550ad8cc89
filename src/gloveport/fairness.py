"""Keeps large work from blocking everybody else: runs it in few threads, or in pieces, with rests between.

A thread alone is no remedy: all threads share the interpreter's lock, and each computing thread delays the event loop
by one switch of the lock. So a server does few large computations at a time, and the others wait for their turn. A
single long call into C still stops everybody: it has to be bounded, or done in slices.

Nor is it enough to give others one turn of the event loop between two pieces: their work takes many turns, and each
would wait for a piece. So a task that has computed for long rests for as long.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, TypeVarTuple

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar, checkpoint

SMALL_BYTES: Final = 1 << 16
"""Work of up to this size runs at once: a change of threads costs as much."""

_MOMENT_SECONDS: Final = 0.004
_resting: RunVar[anyio.Lock] = RunVar("gloveport.fairness.resting")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
Key = TypeVar("Key")


def choose_forgotten(entries: Sequence[tuple[Key, str, int]]) -> Key:
    """Choose what is forgotten where there is no room: the oldest of the owner with the most, so that nobody drives out
    what others have. Entries are key, owner and size of each, the oldest first; not empty.
    """
    amounts = Counter[str]()
    for _, owner, size in entries:
        amounts[owner] += size
    greediest = max(amounts, key=amounts.__getitem__)
    return next(key for key, owner, _ in entries if owner == greediest)


class OwnThreads:
    """Few threads for one kind of work: whoever does much of it leaves threads to all other work.

    Forty calls of one caller that wait for a lock would else take all threads that a server has.
    """

    def __init__(self, name: str, count: int) -> None:
        """``name``: of the kind of work, as no other has it."""
        self._count = count
        self._of_loop = RunVar[anyio.CapacityLimiter](f"gloveport.fairness: {name}")

    async def run(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Call ``work`` in one of them, when one is free."""
        limiter = self._of_loop.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(self._count)
            self._of_loop.set(limiter)
        return await to_thread.run_sync(work, *arguments, limiter=limiter)


_COMPUTATIONS: Final = OwnThreads("large computations", 2)
"""And not one: some work waits for a lock on a file, or computes without the interpreter's lock."""


async def compute(size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call ``work``, whose time grows with ``size``; if that is large, in a thread, when a place is free.

    Once started it is not abandoned.
    """
    if size <= SMALL_BYTES:
        return work(*arguments)
    return await _COMPUTATIONS.run(functools.partial(_work_and_rest, work, *arguments))


def _work_and_rest(work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    began = time.thread_time()
    try:
        return work(*arguments)
    finally:
        if (spent := time.thread_time() - began) > _MOMENT_SECONDS:
            time.sleep(spent)


class CrowdedTurns:
    """Makes tasks that always have something to do, such as the busy connections of one run, rest between their turns
    while the event loop is crowded, one after the other. Many such tasks would leave little time to others.
    """

    def __init__(self) -> None:
        self._resting = anyio.Lock()

    async def pass_on(self) -> None:
        """Let others run; and rest for a moment if that took longer than a moment."""
        began = time.monotonic()
        await checkpoint()
        if time.monotonic() - began > _MOMENT_SECONDS:
            async with self._resting:
                await anyio.sleep(_MOMENT_SECONDS)


class Pace:
    """Paces work that is done on the event loop in pieces: rests for as long as the pieces have taken.

    Tasks rest one after the other, or they would all come back together.
    """

    def __init__(self) -> None:
        self._spent = 0.0

    async def rest(self, began: float) -> bool:
        """Rest, if the pieces since the last rest have taken more than a moment; tell whether it did. The present piece
        ``began`` at this time, by ``time.monotonic``.
        """
        self._spent += time.monotonic() - began
        if self._spent <= _MOMENT_SECONDS:
            return False
        spent, self._spent = self._spent, 0.0
        lock = _resting.get(None)
        if lock is None:
            lock = anyio.Lock()
            _resting.set(lock)
        async with lock:
            await anyio.sleep(spent)
        return True
