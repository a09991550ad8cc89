"""A sandbox backend whose sandboxes have all waited for their program: none is ever built for one.

A kind of sandbox that the operator's settings make ahead is taken from there. Where a program's limits fit none of
these, the operator is one who has set just these limits, so that no program is left out.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NoReturn

import anyio

from gloveport.bootstrap import build
from gloveport.config import Config
from gloveport.config.schema import PoolSettings as Sizes
from gloveport.engine.execution import Engine
from gloveport.model import Policy
from gloveport.model.reading import read_value
from gloveport.sandbox.base import Child
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool.pool import Pool
from gloveport.sandbox.pool.stock import Stock

_SIZES = Sizes(forked=1, booted=1)
_FILL_SECONDS = 60


class Nothing:
    """A sandbox backend that must not be asked."""

    def start(self, _plan: Plan) -> NoReturn:
        """See ``sandbox.base.Sandbox``."""
        raise AssertionError("this was to be run in a sandbox that waited")


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """Waiting sandboxes of one kind. Who takes one waits until there is one."""

    stock: Stock
    pool: Pool
    turn: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(frozen=True, kw_only=True)
class Warm:
    """See the module.

    Attributes:
        engine: Whose host and languages they are for.
    """

    engine: Engine
    _shelves: list[Shelf] = field(default_factory=list)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def prepare(self, plan: Plan, policy: Policy) -> None:
        """Have sandboxes wait for ``plan``, which is one under ``policy``."""
        if not any(shelf.stock.maker.fits(plan) for shelf in self._shelves):
            exact = policy.model_copy(update={"limits": plan.limits})
            stocks = [stock for one in (policy, exact) for stock in self._stocks(one) if stock.maker.fits(plan)]
            shelf = Shelf(stock=stocks[0], pool=Pool(cold=Nothing(), stocks=(stocks[0],)))
            # What is counted before and after a batch must not grow with use.
            shelf.stock._target_size = shelf.stock.size
            await self._open.enter_async_context(shelf.pool.open())
            self._shelves.append(shelf)

    async def settled(self) -> None:
        """Return when nothing is left of any run that has ended, and all that shall wait does."""
        with anyio.fail_after(_FILL_SECONDS):
            await self.wait_cleared()
            for shelf in self._shelves:
                await shelf.stock.wait_filled()

    async def wait_cleared(self) -> None:
        """Return when nothing is left of any run that has ended."""
        for shelf in self._shelves:
            await shelf.pool.wait_cleared()

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``."""
        shelf = next(shelf for shelf in self._shelves if shelf.stock.maker.fits(plan))
        async with contextlib.AsyncExitStack() as stack:
            async with shelf.turn:
                await shelf.stock.wait_filled()
                child = await stack.enter_async_context(shelf.pool.start(plan))
            yield child

    async def aclose(self) -> None:
        """End all that waits."""
        await self._open.aclose()
        self._shelves.clear()

    def _stocks(self, policy: Policy) -> tuple[Stock, ...]:
        engine = self.engine
        config = read_value(Config, {"policy": policy, "pool": _SIZES})
        return build.stocks(config, engine.sandbox.cold, engine.system, engine.runtimes, engine.reach.network)
