"""Keeps large work from stopping everybody else: runs it off the event loop, or in pieces.

A thread alone is no remedy: all threads share the interpreter's lock, and each that computes delays the event loop by
one switch of it. So a server computes one such thing at a time, and the others wait for their turn. What one call into
C does in one go still stops everybody: it has to be bounded, or done in slices.

Nor is one turn for others between two pieces: what they do takes many, and each would wait for a piece. So whoever has
computed for long rests for as long.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

SMALL_BYTES: Final = 1 << 16
"""What takes time by a size up to this is done at once: to change threads costs as much."""

_MOMENT_SECONDS: Final = 0.004
_computing: RunVar[anyio.Lock] = RunVar("gloveport.fairness.computing")
_resting: RunVar[anyio.Lock] = RunVar("gloveport.fairness.resting")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def compute(size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call ``work``, which takes time by this size; where that is large, in a thread, and one at a time.

    Once begun it is not given up half-way.
    """
    if size <= SMALL_BYTES:
        return work(*arguments)
    async with _lock(_computing):
        began = time.monotonic()
        result = await to_thread.run_sync(work, *arguments)
        spent = time.monotonic() - began
        await anyio.sleep(spent if spent > _MOMENT_SECONDS else 0)
        return result


class Pace:
    """Lets others go on for as long as one has computed on the event loop, piece by piece, of one stream.

    All who have computed rest one after the other, or they would come back together.
    """

    def __init__(self) -> None:
        self._spent = 0.0

    async def rest(self, began: float) -> bool:
        """Rest, if the pieces since the last rest have taken more than a moment. Whether that was so.

        Args:
            began: When the present piece was begun, by ``time.monotonic``.
        """
        self._spent += time.monotonic() - began
        if self._spent <= _MOMENT_SECONDS:
            return False
        spent, self._spent = self._spent, 0.0
        async with _lock(_resting):
            await anyio.sleep(spent)
        return True


def _lock(kept: RunVar[anyio.Lock]) -> anyio.Lock:
    """The event loop's own."""
    lock = kept.get(None)
    if lock is None:
        lock = anyio.Lock()
        kept.set(lock)
    return lock
