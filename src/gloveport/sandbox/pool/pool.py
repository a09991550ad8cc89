"""Pools sandboxes that are made ahead and wait for a program, so that a run need not wait for one.

Strength never depends on warmth: a waiting sandbox has passed the same checks as one that is built for a program, runs
one program and is gone. A plan without a fitting waiting sandbox gets a cold one.
"""

import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.sandbox.base import Child, Sandbox
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool.stock import Stock, WaitingSandbox
from gloveport.task_group import open_task_group

_AFTER_SECONDS = 0.003  # the answer goes first; the sandbox is dead already
_MOST_REMOVALS = 32
_MOST_ADDED = 4


class StockedSandbox(Sandbox, Protocol):
    """An isolation backend that keeps sandboxes waiting."""

    def restock(self, stocks: tuple[Stock, ...]) -> None:
        """Replace the stocks. Sandboxes that were handed out of the former ones continue unchanged."""

    def add_stock(self, plan: Plan, make: Callable[[], Stock | None]) -> None:
        """Add a stock for this plan, if there is none, for as long as it is used."""


class Pool(Struct, kw_only=True):
    """A ``StockedSandbox`` that hands out waiting sandboxes where one fits.

    Attributes:
        cold: Builds sandboxes when none waits.
        stocks: One for each profile.
    """

    cold: Sandbox
    stocks: tuple[Stock, ...]
    _tasks: TaskGroup | None = None
    _removals: int = 0
    _removed: anyio.Event = field(default_factory=anyio.Event)
    _ended: deque[WaitingSandbox] = field(default_factory=deque)
    """Sandboxes whose run is over and whose removal has not begun."""

    _has_ended: anyio.Event = field(default_factory=anyio.Event)

    async def wait_cleared(self) -> None:
        """Wait until nothing is left of any ended run."""
        while self._removals:
            if self._removed.is_set():
                self._removed = anyio.Event()
            await self._removed.wait()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Fill the stocks in the background; on leaving, all sandboxes are removed."""
        async with open_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._remove_ended, tasks)
            for stock in self.stocks:
                tasks.start_soon(stock.maintain)
            try:
                yield
            finally:
                self._tasks = None

    def restock(self, stocks: tuple[Stock, ...]) -> None:
        """See ``StockedSandbox``."""
        former, self.stocks = self.stocks, stocks
        for stock in former:
            stock.retire()
        if self._tasks is not None:
            for stock in stocks:
                self._tasks.start_soon(stock.maintain)

    def add_stock(self, plan: Plan, make: Callable[[], Stock | None]) -> None:
        """See ``StockedSandbox``. If too many were added, the least recently used one goes."""
        if self._tasks is None or any(stock.maker.fits(plan) for stock in self.stocks):
            return
        stock = make()
        if stock is None or not stock.maker.fits(plan):
            return
        added = [one for one in self.stocks if one.is_added]
        if len(added) >= _MOST_ADDED:
            self._remove_stock(min(added, key=lambda one: one.last_taken))
        stock.is_added = True
        self.stocks = (*self.stocks, stock)
        self._tasks.start_soon(stock.maintain)
        self._tasks.start_soon(self._end_idle, stock)

    async def _end_idle(self, stock: Stock) -> None:
        """End an added stock that has been unused for long enough."""
        while stock in self.stocks:
            remaining_seconds = stock.last_taken + stock.idle_seconds - time.monotonic()
            if remaining_seconds <= 0:
                self._remove_stock(stock)
            else:
                await anyio.sleep(remaining_seconds)

    def _remove_stock(self, stock: Stock) -> None:
        self.stocks = tuple(one for one in self.stocks if one is not stock)
        stock.retire()

    def start(self, plan: Plan) -> AbstractAsyncContextManager[Child]:
        """See ``sandbox.base.Sandbox``. After a run, its sandbox is killed at once, and removed in the background."""
        return _StartedSandbox(self, plan)

    async def _put_away(self, waiting: WaitingSandbox, *, has_failed: bool) -> None:
        if has_failed or self._tasks is None or self._removals >= _MOST_REMOVALS:
            await waiting.remove()
        else:
            self._removals += 1
            self._ended.append(waiting)
            self._has_ended.set()

    async def _take(self, plan: Plan) -> WaitingSandbox | None:
        for stock in self.stocks if self._tasks else ():
            if stock.maker.fits(plan):
                return await stock.take(plan)
        return None

    async def _remove_ended(self, tasks: TaskGroup) -> None:
        """Start the removal of ended sandboxes: starting a task would delay the answer."""
        try:
            while True:
                await self._has_ended.wait()
                self._has_ended = anyio.Event()
                while self._ended:
                    tasks.start_soon(self._remove_later, self._ended.popleft())
        finally:
            with anyio.CancelScope(shield=True):
                while self._ended:
                    await self._remove_later(self._ended.popleft())

    async def _remove_later(self, waiting: WaitingSandbox) -> None:
        try:
            await anyio.sleep(_AFTER_SECONDS)
        finally:
            try:
                await waiting.remove()
            finally:
                self._removals -= 1
                self._removed.set()


class _StartedSandbox:
    """The context of one sandbox. A class: a generator would cost each run a tenth of a record."""

    __slots__ = ("_cold", "_plan", "_pool", "_waiting")

    def __init__(self, pool: Pool, plan: Plan) -> None:
        self._pool = pool
        self._plan = plan
        self._waiting: WaitingSandbox | None = None
        self._cold: AbstractAsyncContextManager[Child] | None = None

    async def __aenter__(self) -> Child:
        self._waiting = await self._pool._take(self._plan)  # noqa: SLF001 - a part of it
        if self._waiting is not None:
            return self._waiting.child
        self._cold = self._pool.cold.start(self._plan)
        return await self._cold.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if self._cold is not None:
            for stock in self._pool.stocks:
                if stock.is_added and stock.maker.fits(self._plan):
                    stock.note_cold_over()
            return await self._cold.__aexit__(kind, error, traceback)
        assert self._waiting is not None  # noqa: S101 - it was entered
        await self._pool._put_away(self._waiting, has_failed=kind is not None)  # noqa: SLF001
        return None
