"""Admission: how many runs go on at once, how many wait, and for how long."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio

from gloveport.errors import Denied


@dataclass(kw_only=True)
class Admission:
    """A bounded queue before a bounded number of places.

    Attributes:
        concurrent_runs: Places.
        queue_length: How many may wait for one; 0 means nobody waits.
        queue_seconds: How long one waits at most.
    """

    concurrent_runs: int
    queue_length: int
    queue_seconds: float
    waiting: int = 0
    _places: anyio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = anyio.Semaphore(self.concurrent_runs)

    @property
    def running(self) -> int:
        """Places that are taken."""
        return self.concurrent_runs - self._places.value

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place for one run, first come first served.

        Raises:
            Denied: ``queue_full`` or ``queue_timeout``, at once or after ``queue_seconds``.
        """
        await self._enter()
        try:
            yield
        finally:
            self._places.release()

    async def _enter(self) -> None:
        try:
            self._places.acquire_nowait()
        except anyio.WouldBlock:
            pass
        else:
            return
        if self.waiting >= self.queue_length:
            raise Denied(
                "queue_full",
                f"{self.concurrent_runs} programs are running and {self.waiting} are waiting",
                hint="try again when a run has ended",
            )
        self.waiting += 1
        try:
            with anyio.fail_after(self.queue_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Denied(
                "queue_timeout",
                f"no place became free within {self.queue_seconds:g} s",
                hint="try again when a run has ended",
            ) from None
        finally:
            self.waiting -= 1
