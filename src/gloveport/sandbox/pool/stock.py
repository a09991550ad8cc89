"""Keeps sandboxes of one profile waiting for a program: makes them, hands them out, removes excess ones."""

import contextlib
import logging
import time
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct, field

from gloveport.errors import ForkRefusedError, SandboxError
from gloveport.sandbox.launch.bubblewrap_process import make_build_error
from gloveport.sandbox.plan import Plan

if TYPE_CHECKING:
    from gloveport.sandbox.run.confined import Confined

_LOOK_SECONDS = 2.0
_BEHIND_SECONDS = 0.02  # refilling can wait until a short run is over
_BEHIND_COLD_SECONDS = 2.0  # the first user of an added stock gets a cold one: another build would delay it
_GROWTH = 4  # agents with concurrent requests have a few
_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Maker(Protocol):
    """Makes sandboxes of one profile that wait for their program."""

    def fits(self, plan: Plan) -> bool:
        """Whether one of its sandboxes, narrowed, fits ``plan``."""

    def is_quick(self) -> bool:
        """Whether making one now is faster than building a cold one."""

    def make(self) -> "AbstractAsyncContextManager[Confined]":
        """Make a sandbox; on leaving, nothing is left of it. Raises SandboxError if it can't be made."""

    async def maintain(self) -> None:
        """Maintain what ``make`` needs, until cancelled."""


class WaitingSandbox(Struct, frozen=True, kw_only=True):
    """A waiting sandbox, and its removal."""

    child: "Confined"
    cleanup: contextlib.AsyncExitStack

    async def remove(self) -> None:
        """Remove all that is left of it. A failure is only logged: it is not the waiting caller's fault."""
        try:
            await self.cleanup.aclose()
        except (SandboxError, OSError) as error:
            _log.warning("a sandbox could not be cleared away: %s", error.args[0])


class Stock(Struct, kw_only=True, eq=False):
    """The waiting sandboxes of one profile.

    One is enough until the first use: each is two host processes or more, and a host has many servers that are never
    used. Taking the last one grows the stock fourfold, so it follows how many are taken at once.

    Attributes:
        size: The most waiting sandboxes.
        idle_seconds: After so long without use, one is enough again.
        begins_with_use: Whether nothing is started before the first use: it takes much memory, which most servers do
            not need.
        is_added: Whether it was added on demand, and goes when it is unused.
        last_taken: Time of the last use, by the monotonic clock.
    """

    maker: Maker
    size: int
    idle_seconds: float
    begins_with_use: bool = False
    is_added: bool = False
    last_taken: float = field(default_factory=time.monotonic)
    _waiting: deque[WaitingSandbox] = field(default_factory=deque)
    _target_size: int = 1
    _change: anyio.Event = field(default_factory=anyio.Event)
    _full: anyio.Event = field(default_factory=anyio.Event)
    _retired: anyio.Event = field(default_factory=anyio.Event)
    _start: anyio.Event = field(default_factory=anyio.Event)
    _cold_over: anyio.Event = field(default_factory=anyio.Event)
    _count: int = 0
    """How many of its sandboxes exist, waiting or handed out."""

    _removed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def waiting(self) -> int:
        """How many sandboxes wait."""
        return len(self._waiting)

    def begin(self) -> None:
        """Start the maker and fill the stock, if not begun yet."""
        self._start.set()

    async def wait_filled(self) -> None:
        """Wait until the stock is full. It begins, if it has not begun yet."""
        self.begin()
        while self._missing() > 0:
            if self._full.is_set():
                self._full = anyio.Event()
            await self._full.wait()

    async def take(self, plan: Plan) -> WaitingSandbox | None:
        """A waiting sandbox, narrowed to ``plan``; else one made now, if that is quick; None if not, or if it fails."""
        self.last_taken = time.monotonic()
        self.begin()
        if len(self._waiting) <= 1:
            self._target_size = min(_GROWTH * self._target_size, self.size)
        while self._waiting:
            waiting = self._waiting.popleft()
            self._change.set()
            if await _hand_out(waiting, plan):
                return waiting
        if not self.maker.is_quick():
            return None
        try:
            waiting = await self.make()
        except SandboxError:  # if this host is at fault, the cold build fails too, and says why
            return None
        return waiting if await _hand_out(waiting, plan) else None

    def note_cold_over(self) -> None:
        """Note that a run with a cold sandbox is over."""
        self._cold_over.set()

    def retire(self) -> None:
        """Make no more sandboxes, and end when the last one handed out is gone."""
        self._retired.set()
        self._start.set()

    async def maintain(self) -> None:
        """Maintain the stock until it is retired and its last sandbox gone, or until cancelled."""
        if self.begins_with_use:
            await self._start.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.maker.maintain)
            async with anyio.create_task_group() as filling:
                filling.start_soon(self._fill)
                await self._retired.wait()
                filling.cancel_scope.cancel()
            while self._count:
                self._removed = anyio.Event()
                await self._removed.wait()
            tasks.cancel_scope.cancel()

    async def _fill(self) -> None:
        """Keep it filled, one sandbox after the other, until cancelled; then end the waiting ones."""
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
                    except ForkRefusedError:  # permanent: every sandbox is built on demand
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
        """Remove sandboxes that died while waiting, and excess ones."""
        for waiting in [waiting for waiting in self._waiting if waiting.child.is_over()]:
            self._waiting.remove(waiting)
            await waiting.remove()
        if time.monotonic() - self.last_taken >= self.idle_seconds:
            self._target_size = 1
        while len(self._waiting) > self._target_size:
            await self._waiting.pop().remove()

    def _missing(self) -> int:
        return max(0, self._target_size - len(self._waiting))

    async def make(self) -> WaitingSandbox:
        """Make a sandbox, which the caller removes. Raises SandboxError if it can't be made."""
        async with contextlib.AsyncExitStack() as stack:
            self._count += 1
            stack.callback(self._count_removed)  # called when all of it is gone
            child = await stack.enter_async_context(self.maker.make())
            try:
                _ = child.events  # made now: later a caller would wait for it
            except OSError as error:
                raise make_build_error(str(error)) from error
            return WaitingSandbox(child=child, cleanup=stack.pop_all())

    def _count_removed(self) -> None:
        self._count -= 1
        self._removed.set()


async def _hand_out(waiting: WaitingSandbox, plan: Plan) -> bool:
    """Narrow a waiting sandbox to ``plan``. A dead one, or one that can't be narrowed, is removed."""
    try:
        if not waiting.child.is_over():
            waiting.child.narrow(plan)
            return True
    except (OSError, SandboxError):  # for example, it already holds more memory than the plan allows
        pass
    await waiting.remove()
    return False
