"""Computes off the event loop what takes longer the more somebody has sent.

A thread alone is no remedy: all threads share the interpreter's lock, and each that computes delays the event loop by
one switch of it. So a server computes few such things at a time, and the others wait for their turn. What one call into
C does in one go still stops everybody: it has to be bounded, or done in slices.
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

SMALL_BYTES: Final = 1 << 16
"""What takes time by a size up to this is done at once: to change threads costs as much."""

_PLACES: Final = 2
_limiter: RunVar[CapacityLimiter] = RunVar("gloveport.offload")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def compute(size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call ``work``, which takes time by this size; where that is large, in a thread, when there is a place.

    Once begun it is not given up half-way.
    """
    if size <= SMALL_BYTES:
        return work(*arguments)
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(_PLACES)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, *arguments, limiter=limiter)
