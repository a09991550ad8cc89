"""Keeps sandboxes of one profile waiting for a program: makes them, hands out, removes what is too many."""

import contextlib
import logging
import time
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct, field

from gloveport.errors import ForkRefusedError, SandboxError
from gloveport.sandbox.plan import Plan

if TYPE_CHECKING:
    from gloveport.sandbox.run.confined import Confined

_LOOK_SECONDS = 2.0
_BEHIND_SECONDS = 0.02  # to fill up can wait until the run that has taken one is over, if it is a short one
_BEHIND_COLD_SECONDS = 2.0  # who needs an added stock first has one built: to make another would hold that up
_GROWTH = 4  # agents that ask for several things at once ask for a few
_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0

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
