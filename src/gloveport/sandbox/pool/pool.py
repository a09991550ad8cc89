"""Pools sandboxes that wait for a program, made ahead of need, so that a run need not wait for one.

Strength never depends on warmth: a waiting sandbox has passed the same checks as one that is built for a program, runs
one program and is gone. What fits no waiting sandbox, or finds none, is built cold.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.errors import ForkRefusedError, SandboxError
from gloveport.sandbox.base import Child, Sandbox
from gloveport.sandbox.plan import Plan
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from gloveport.sandbox.run.confined import Confined

_LOOK_SECONDS = 2.0
_BEHIND_SECONDS = 0.02  # to fill up can wait until the run that has taken one is over, if it is a short one
_BEHIND_COLD_SECONDS = 2.0  # who needs an added stock first has one built: to make another would hold that up
_GROWTH = 4  # agents that ask for several things at once ask for a few
_AFTER_SECONDS = 0.003  # the answer goes first; what would be removed is killed already
_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_MOST_REMOVALS = 32
_MOST_ADDED = 4

_log = logging.getLogger(__name__)


class Maker(Protocol):
    """Makes sandboxes of one profile that wait for their program."""

    def fits(self, plan: Plan) -> bool:
        """Whether one of them, narrowed, is what ``plan`` asks for."""

    def is_quick(self) -> bool:
        """Whether making one now takes less time than building one cold."""

    def make(self) -> "AbstractAsyncContextManager[Confined]":
        """One of them; on leaving, nothing is left of it.

        Raises:
            SandboxError: It can't be made.
        """

    async def maintain(self) -> None:
        """Keep up what ``make`` needs, until cancelled."""


class WaitingSandbox(Struct, frozen=True, kw_only=True):
    """A sandbox that waits, and what ends it."""

    child: "Confined"
    cleanup: contextlib.AsyncExitStack

    async def remove(self) -> None:
        """End what is left of it. What can't be ended is nobody's fault who waits, so it is only logged."""
        try:
            await self.cleanup.aclose()
        except (SandboxError, OSError) as error:
            _log.warning("a sandbox could not be cleared away: %s", error.args[0])


class Stock(Struct, kw_only=True, eq=False):
    """The waiting sandboxes of one profile.

    One is enough until somebody comes: each is two processes of the host or more, and a host has many servers that are
    never asked. Whoever takes the last has four times as many wait from then on, so a stock follows how many are taken
    at once.

    Attributes:
        size: The most there shall be.
        idle_seconds: After so long without a taker, one is enough again.
        begins_with_use: Whether none waits, and nothing that makes them is started, until somebody comes: it takes much
            memory, which most servers have no use for.
        is_added: Whether it came when somebody needed it, and goes when nobody does.
        last_taken: When somebody took from it last, by the monotonic clock.
    """

    maker: Maker
    size: int
    idle_seconds: float
    begins_with_use: bool = False
    is_added: bool = False
    last_taken: float = field(default_factory=time.monotonic)
    _waiting: deque[WaitingSandbox] = field(default_factory=deque)
    _wanted: int = 1
    _change: anyio.Event = field(default_factory=anyio.Event)
    _full: anyio.Event = field(default_factory=anyio.Event)
    _retired: anyio.Event = field(default_factory=anyio.Event)
    _begun: anyio.Event = field(default_factory=anyio.Event)
    _cold_over: anyio.Event = field(default_factory=anyio.Event)
    _made: int = 0
    """How many of its sandboxes are there, handed out or not."""

    _removed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def waiting(self) -> int:
        """How many there are."""
        return len(self._waiting)

    def begin(self) -> None:
        """Start what makes them, and have some wait, if that has not begun yet."""
        self._begun.set()

    async def wait_filled(self) -> None:
        """Return when as many wait as shall. It begins, if it has not begun yet."""
        self.begin()
        while self._missing() > 0:
            if self._full.is_set():
                self._full = anyio.Event()
            await self._full.wait()

    async def take(self, plan: Plan) -> WaitingSandbox | None:
        """One of them, narrowed to ``plan``; one made at once where that is quick; None where it is not, or fails."""
        self.last_taken = time.monotonic()
        self.begin()
        if len(self._waiting) <= 1:
            self._wanted = min(_GROWTH * self._wanted, self.size)
        while self._waiting:
            waiting = self._waiting.popleft()
            self._change.set()
            if await _hand_out(waiting, plan):
                return waiting
        if not self.maker.is_quick():
            return None
        try:
            waiting = await self.make()
        except SandboxError:  # if it is this host that fails, building it cold fails too, and says why
            return None
        return waiting if await _hand_out(waiting, plan) else None

    def note_cold_over(self) -> None:
        """The run is over of somebody for whom none waited."""
        self._cold_over.set()

    def retire(self) -> None:
        """Make no more, and end when the last that was handed out is gone."""
        self._retired.set()
        self._begun.set()

    async def maintain(self) -> None:
        """Keep it, until it is retired and its last sandbox gone, or until cancelled."""
        if self.begins_with_use:
            await self._begun.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.maker.maintain)
            async with anyio.create_task_group() as filling:
                filling.start_soon(self._fill)
                await self._retired.wait()
                filling.cancel_scope.cancel()
            while self._made:
                self._removed = anyio.Event()
                await self._removed.wait()
            tasks.cancel_scope.cancel()

    async def _fill(self) -> None:
        """Keep it filled, one after the other, until cancelled; then end what waits."""
        pause = _PAUSE_SECONDS
        try:
            if self.is_added and not self.maker.is_quick():
                with anyio.move_on_after(_BEHIND_COLD_SECONDS):
                    await self._cold_over.wait()
            while True:
                if missing := self._missing():
                    if missing <= _GROWTH or missing < len(self._waiting) or not self.maker.is_quick():
                        await anyio.sleep(_BEHIND_SECONDS)
                    try:
                        self._waiting.append(await self.make())
                        pause = _PAUSE_SECONDS
                    except ForkRefusedError:  # none ever can: each is built when it is asked for
                        await anyio.sleep_forever()
                    except SandboxError as error:
                        _log.warning("no sandbox can be made ahead of need: %s", error.args[0])
                        await anyio.sleep(pause)
                        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                    continue
                self._full.set()
                self._change = anyio.Event()
                with anyio.move_on_after(_LOOK_SECONDS):
                    await self._change.wait()
                    continue
                await self._remove_excess()
        finally:
            with anyio.CancelScope(shield=True):
                while self._waiting:
                    await self._waiting.pop().remove()

    async def _remove_excess(self) -> None:
        """Remove those that died waiting, and what is too many."""
        for waiting in [waiting for waiting in self._waiting if waiting.child.is_over()]:
            self._waiting.remove(waiting)
            await waiting.remove()
        if time.monotonic() - self.last_taken >= self.idle_seconds:
            self._wanted = 1
        while len(self._waiting) > self._wanted:
            await self._waiting.pop().remove()

    def _missing(self) -> int:
        return max(0, self._wanted - len(self._waiting))

    async def make(self) -> WaitingSandbox:
        """Another one, for whoever removes it.

        Raises:
            SandboxError: It can't be made.
        """
        async with contextlib.AsyncExitStack() as stack:
            self._made += 1
            stack.callback(self._count_removed)  # when all of it is gone
            child = await stack.enter_async_context(self.maker.make())
            _ = child.events  # made now, for then somebody waits
            return WaitingSandbox(child=child, cleanup=stack.pop_all())

    def _count_removed(self) -> None:
        self._made -= 1
        self._removed.set()


async def _hand_out(waiting: WaitingSandbox, plan: Plan) -> bool:
    """Narrow a waiting sandbox to ``plan``. One that is dead, or can't be narrowed, is removed."""
    try:
        if not waiting.child.is_over():
            waiting.child.narrow(plan)
            return True
    except (OSError, SandboxError):  # it holds more memory already than the plan allows, say
        pass
    await waiting.remove()
    return False


class StockedSandbox(Sandbox, Protocol):
    """An isolation backend that keeps sandboxes waiting."""

    def restock(self, stocks: tuple[Stock, ...]) -> None:
        """Take from these from now on. What was handed out of the former ones goes on as if nothing had happened."""

    def add_stock(self, plan: Plan, make: Callable[[], Stock | None]) -> None:
        """Have a stock for this plan, where there is none, for as long as somebody takes from it."""


class Pool(Struct, kw_only=True):
    """A ``StockedSandbox`` that hands out waiting sandboxes where one fits.

    Attributes:
        cold: Builds the others.
        stocks: One for each profile.
    """

    cold: Sandbox
    stocks: tuple[Stock, ...]
    _tasks: TaskGroup | None = None
    _removals: int = 0
    _removed: anyio.Event = field(default_factory=anyio.Event)
    _ended: deque[WaitingSandbox] = field(default_factory=deque)
    """Those whose run is over, and that nobody has begun to remove."""

    _has_ended: anyio.Event = field(default_factory=anyio.Event)

    async def wait_cleared(self) -> None:
        """Return when nothing is left of any run that has ended."""
        while self._removals:
            if self._removed.is_set():
                self._removed = anyio.Event()
            await self._removed.wait()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Fill the stocks in the background; on leaving, nothing is left of any sandbox."""
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
        """Take from these from now on. What was handed out of the former ones goes on as if nothing had happened."""
        former, self.stocks = self.stocks, stocks
        for stock in former:
            stock.retire()
        if self._tasks is not None:
            for stock in stocks:
                self._tasks.start_soon(stock.maintain)

    def add_stock(self, plan: Plan, make: Callable[[], Stock | None]) -> None:
        """See ``StockedSandbox``. Where too many were added, the one goes that nobody has used for longest."""
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
        """End a stock that was added when nobody has taken from it for long enough."""
        while stock in self.stocks:
            left = stock.last_taken + stock.idle_seconds - time.monotonic()
            if left <= 0:
                self._remove_stock(stock)
            else:
                await anyio.sleep(left)

    def _remove_stock(self, stock: Stock) -> None:
        self.stocks = tuple(one for one in self.stocks if one is not stock)
        stock.retire()

    def start(self, plan: Plan) -> AbstractAsyncContextManager[Child]:
        """See ``sandbox.base.Sandbox``.

        After a run that has ended, what is left of its sandbox has been killed and is cleared away in the background.
        """
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
        """Begin to remove what has been put away: to start a task takes too long for whoever waits for an answer."""
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
    """The context of one sandbox. A class: on the way of each run a generator would cost a tenth of a record."""

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
