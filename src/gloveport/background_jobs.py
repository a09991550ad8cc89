"""A registry of jobs that outlive their requests: each has an owner, and is remembered for a while when over."""

import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.fairness import choose_forgotten


class Job(Struct, eq=False, kw_only=True):
    """A job that is running, or is over and remembered.

    Attributes:
        id: Opaque; nobody can guess it.
        owner: Who may see it; opaque.
        failure: The exception of its work.
        began: When it was begun, by the monotonic clock.
        ended: When it was over; 0 while it goes on.
        scope: Cancelling it ends the job at once.
    """

    id: str
    owner: str
    failure: Exception | None = None
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.ended > 0

    def end(self) -> None:
        """Mark the job as ended."""
        self.ended = time.monotonic()
        self.notify()

    def notify(self) -> None:
        """Wake the tasks that wait for this job: something is new."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_changed(self, seconds: float) -> bool:
        """Wait until something is new, at most so long; tell whether it is. Look first, and await nothing between."""
        with anyio.move_on_after(max(0.0, seconds)) as waiting:
            await self._changed.wait()
        return not waiting.cancelled_caught

    async def wait_over(self, seconds: float = math.inf) -> None:
        """Wait until it is over, at most so long."""
        with anyio.move_on_after(seconds):
            while not self.is_over:
                await self.wait_changed(math.inf)


SomeJob = TypeVar("SomeJob", bound=Job)


class Retention(Struct, Generic[SomeJob], kw_only=True):
    """How many ended jobs are remembered. Without room, the oldest of the owner with the most is forgotten.

    Attributes:
        jobs: So many.
        seconds: So long.
        bytes: The most that they may hold together.
        size: How much one job holds.
    """

    jobs: int
    seconds: float
    bytes: float = math.inf
    size: Callable[[SomeJob], int] = field(default=lambda _: 0)


class Jobs(Generic[SomeJob]):
    """The jobs of one kind."""

    def __init__(self, tasks: TaskGroup, retention: Retention[SomeJob]) -> None:
        self._tasks = tasks
        self._retention = retention
        self._active: dict[str, SomeJob] = {}
        self._over: dict[str, tuple[SomeJob, int]] = {}
        """Ended jobs that are remembered, with their sizes, in the order in which they ended."""
        self._over_bytes = 0

    def start(self, job: SomeJob, work: Callable[[SomeJob], Awaitable[None]]) -> None:
        """Start a job. It runs until its work is done, its scope is cancelled, or the server ends."""
        self.forget_old()
        self._active[job.id] = job
        self._tasks.start_soon(self._do, job, work)

    def find(self, job_id: str, owner: str) -> SomeJob | None:
        """The job of this id, if it was begun for this owner and is remembered."""
        self.forget_old()
        over, _ = self._over.get(job_id, (None, 0))
        job = self._active.get(job_id, over)
        return job if job is not None and job.owner == owner else None

    def drop(self, job: SomeJob) -> None:
        """Forget a job at once: nobody will ask for it."""
        self._active.pop(job.id, None)
        _, size = self._over.pop(job.id, (job, 0))
        self._over_bytes -= size

    def all(self) -> list[SomeJob]:
        """Remembered and running jobs."""
        return [*(job for job, _ in self._over.values()), *self.active()]

    def active(self) -> list[SomeJob]:
        """Running jobs."""
        return [*self._active.values()]

    async def end(self) -> None:
        """End the running jobs, and wait until they are over."""
        active = self.active()
        for job in active:
            job.scope.cancel()
        for job in active:
            await job.wait_over()

    def forget_old(self) -> None:
        """Forget ended jobs that are too old, too many or too large."""
        retention, latest = self._retention, time.monotonic() - self._retention.seconds
        for job in [job for job, _ in self._over.values() if job.ended < latest]:
            self.drop(job)
        while len(self._over) > retention.jobs:
            self.drop(choose_forgotten([(job, job.owner, 1) for job, _ in self._over.values()]))
        while self._over_bytes > retention.bytes:
            self.drop(choose_forgotten([(job, job.owner, size) for job, size in self._over.values()]))

    async def _do(self, job: SomeJob, work: Callable[[SomeJob], Awaitable[None]]) -> None:
        try:
            with job.scope:
                await work(job)
        except Exception as error:  # noqa: BLE001 - no other job ends with it; who waits for it raises it
            job.failure = error
        finally:
            job.end()
            if self._active.pop(job.id, None) is not None:  # else it was dropped
                size = self._retention.size(job)
                self._over[job.id] = job, size
                self._over_bytes += size
