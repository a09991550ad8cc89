"""Admits runs: how many go on at once, how many wait, for how long, and whose turn it is.

A place that becomes free while somebody waits is handed over directly and is never free in between, so nobody
overtakes. However a wait ends: a waiter that was given a place by then takes it or passes it on.
"""

import math
import sys
from collections import Counter, OrderedDict
from contextlib import AbstractAsyncContextManager

import anyio
from msgspec import Struct, field

from gloveport.errors import Denied

_LATER = "try again when a run has ended"
_FEWER = "ask for fewer runs at a time: for the next one when an answer has come"


class _Waiter(Struct, eq=False):
    """One waiting run. Whoever takes it out of its queue notes here what became of it."""

    decided: anyio.Event = field(default_factory=anyio.Event)
    admitted: bool = False
    refusal: Denied | None = None


class _Place:
    """The context of one place. A class: a generator would cost each run as much as all else here."""

    __slots__ = ("_caller", "_queue")

    def __init__(self, queue: "AdmissionQueue", caller: str) -> None:
        self._queue = queue
        self._caller = caller

    async def __aenter__(self) -> None:
        await self._queue._enter(self._caller)  # noqa: SLF001 - a part of it

    async def __aexit__(self, *_: object) -> None:
        self._queue._leave(self._caller)  # noqa: SLF001


class AdmissionQueue(Struct, kw_only=True):
    """A bounded queue before a bounded number of places, shared fairly between callers.

    A free place goes round robin to the next caller that has somebody waiting; within one caller it is first come,
    first served. When the queue is full, the caller with the most runs gives up its newest waiter for a caller that has
    fewer even with the newcomer. Running and waiting runs count alike: a run with a place has had its turn. A newcomer
    that would only make the two callers equal is refused, or they would drive each other out for ever.

    Attributes:
        concurrent_runs: Places.
        queue_length: How many may wait for one; 0 means nobody waits.
        queue_seconds: How long one waits at most.
        caller_runs: Places that one caller may have at once: where runs take long, none should have all.
        running: Places that are taken.
        waiting: Runs that wait for one, of all callers.
    """

    concurrent_runs: int
    queue_length: int
    queue_seconds: float
    caller_runs: int = sys.maxsize
    running: int = field(default=0)
    waiting: int = field(default=0)
    _places: Counter[str] = field(default_factory=Counter)
    """How many places each caller has, for callers with any."""

    _queues: OrderedDict[str, OrderedDict[_Waiter, None]] = field(default_factory=OrderedDict)
    """The callers with waiting runs, the next one first. Ordered, since a waiter may leave from the middle."""

    def place(self, caller: str) -> AbstractAsyncContextManager[None]:
        """Wait for a place for one run, from the share of ``caller``. Callers must not choose that themselves: more
        names would be more shares.

        Raises:
            Denied: ``queue_full``, at once or when the waiter has to make room; ``queue_timeout`` after
                ``queue_seconds``.
        """
        return _Place(self, caller)

    async def _enter(self, caller: str) -> None:
        if self.running < self.concurrent_runs and self._may_run(caller):  # then none of this caller waits
            self._take(caller)
        else:
            await self._wait(caller)

    async def _wait(self, caller: str) -> None:
        """Return with a place that was handed over."""
        self._make_room(caller)
        waiter = _Waiter()
        self._queues.setdefault(caller, OrderedDict())[waiter] = None
        self.waiting += 1
        try:
            with anyio.move_on_after(self.queue_seconds):
                await waiter.decided.wait()
        except BaseException:  # cancelled; perhaps just when the place came
            if waiter.admitted:
                self._leave(caller)
            elif waiter.refusal is None:
                self._remove(caller, waiter)
            raise
        if waiter.admitted:  # though its time may have run out at the same moment
            return
        if waiter.refusal is not None:
            raise waiter.refusal
        self._remove(caller, waiter)
        raise Denied(
            "queue_timeout", f"no place became free within {self.queue_seconds:g} s: {self._state(caller)}", hint=_LATER
        )

    def _take(self, caller: str) -> None:
        self.running += 1
        self._places[caller] += 1

    def _leave(self, caller: str) -> None:
        """Give a place back, or to the first waiter of the caller whose turn it is."""
        self.running -= 1
        self._places[caller] -= 1
        if not self._places[caller]:
            del self._places[caller]
        following = next(filter(self._may_run, self._queues), None)
        if following is None:
            return
        self._queues.move_to_end(following)
        waiter = next(iter(self._queues[following]))
        self._remove(following, waiter)
        self._take(following)
        waiter.admitted = True
        waiter.decided.set()

    def _make_room(self, caller: str) -> None:
        """Make room in the queue for one more run of this caller, or refuse."""
        if self.waiting < self.queue_length:
            return
        # Among equals the caller whose turn comes last: it loses the least.
        greediest = max(reversed(self._queues), key=self._runs, default=caller)
        if self._runs(caller) + 1 >= self._runs(greediest):
            raise Denied("queue_full", self._state(caller), hint=_FEWER if caller in self._queues else _LATER)
        waiter = next(reversed(self._queues[greediest]))
        self._remove(greediest, waiter)
        reason = f"the queue is full, and your newest run made room for a caller with fewer: {self._state(greediest)}"
        waiter.refusal = Denied("queue_full", reason, hint=_FEWER)
        waiter.decided.set()

    def _remove(self, caller: str, waiter: _Waiter) -> None:
        queue = self._queues[caller]
        del queue[waiter]
        if not queue:
            del self._queues[caller]
        self.waiting -= 1

    def _may_run(self, caller: str) -> bool:
        return self._places[caller] < self.caller_runs

    def _runs(self, caller: str) -> int:
        """How many runs a caller has, running and waiting."""
        return self._places[caller] + len(self._queues.get(caller, ()))

    def _state(self, caller: str) -> str:
        own = len(self._queues.get(caller, ()))
        return (
            f"{self.running} programs are running ({self._places[caller]} of them yours) and {self.waiting} are waiting"
            f" ({own} of them yours; at most {self.queue_length} may wait)"
        )


def make_turns(places: int) -> AdmissionQueue:
    """A queue in which any number wait for these places, for any time: callers only take turns."""
    return AdmissionQueue(concurrent_runs=places, queue_length=sys.maxsize, queue_seconds=math.inf)
