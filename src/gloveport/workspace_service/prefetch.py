"""Prefetches the next sandbox of a workspace while the one before is at work: a command need not wait for it.

It counts only for a command from which the very same is to be kept as when it was made: what was put in the place of a
file since is kept from nobody.
"""

import contextlib
import logging
from collections.abc import AsyncIterator

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.errors import SandboxError
from gloveport.sandbox.pool.makers import ForkServer
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.protected.protected_paths import ProtectedPaths

_BEHIND_SECONDS = 0.02
_CLEAR_SECONDS = 0.01

_log = logging.getLogger(__name__)


class _Next(Struct, eq=False, kw_only=True):
    """A sandbox that waits, or will: its maker has it until it is over."""

    found: ProtectedPaths
    child: Confined | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)
    """It is there, or can't be had."""
    over: anyio.Event = field(default_factory=anyio.Event)
    gone: anyio.Event = field(default_factory=anyio.Event)
    """All of it is dead, and cleared away."""
    is_dead: bool = False
    """Whether all of it was dead when it was over."""
    failure: Exception | None = None

    async def fits(self, found: ProtectedPaths) -> bool:
        """Whether it can be had, and this is kept in it."""
        if self.found != found:
            return False
        await self.wait_settled()
        return self.child is not None and not self.child.is_over()

    async def wait_settled(self) -> None:
        """Return when it is there, or can't be had; without a turn of the event loop where that is known."""
        if not self.settled.is_set():
            await self.settled.wait()


class SandboxPrefetch(Struct, eq=False, kw_only=True):
    """Hands out sandboxes of one fork server.

    Attributes:
        target: Where programs see the workspace.
        ahead: How many are made ahead: one, or none where there is one command.
    """

    server: ForkServer
    target: str
    tasks: TaskGroup
    ahead: int = 1
    _next: _Next | None = None
    _begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when the next command begins."""

    def note_begun(self) -> None:
        """A command has begun: while it runs there is time to make the next sandbox, and to clear away the last."""
        self._begun.set()
        self._begun = anyio.Event()

    def begin(self, found: ProtectedPaths) -> None:
        """Begin to make the one that is taken next."""
        self._next = self._start_making(found)

    @contextlib.asynccontextmanager
    async def take(self, found: ProtectedPaths) -> AsyncIterator[Confined]:
        """A sandbox in which this is kept; on leaving, all of its processes are dead.

        Raises:
            SandboxError: It can't be made.
            WorkspaceError: Too much is to be kept.
        """
        waiting, self._next = self._next, None
        taken = waiting or self._start_making(found)
        try:
            if taken is waiting and not await taken.fits(found):
                taken.over.set()
                taken = self._start_making(found)
            await taken.wait_settled()
            if taken.child is None:
                raise taken.failure or SandboxError("the sandbox was ended before it was used")
            if self.ahead:
                self.tasks.start_soon(self._prepare, taken.found)
            yield taken.child
            await taken.child.wait_dead()
            taken.is_dead = True
        finally:
            taken.over.set()
            if taken.child is not None and not taken.is_dead:
                with anyio.CancelScope(shield=True):  # who makes it may be cancelled as well, and closes what it is
                    await taken.gone.wait()

    def _start_making(self, found: ProtectedPaths) -> _Next:
        one = _Next(found=found)
        self.tasks.start_soon(self._make, one)
        return one

    async def _prepare(self, found: ProtectedPaths) -> None:
        """Make the next one: not before the command that has taken this one has begun, which would wait for that."""
        with anyio.move_on_after(_BEHIND_SECONDS):
            await self._begun.wait()
        if self._next is None:
            self._next = _Next(found=found)
            await self._make(self._next)

    async def _make(self, one: _Next) -> None:
        try:
            async with self.server.make(one.found.kept_paths(self.target)) as child:
                one.child = child
                one.settled.set()
                await one.over.wait()
                if one.is_dead:  # nobody waits for what is left, but for an answer, and for the next command
                    with anyio.move_on_after(_CLEAR_SECONDS):
                        await self._begun.wait()
        except (SandboxError, WorkspaceError, OSError) as error:
            # Of one that was used, something is left: that concerns nobody who waits. Else whoever needs it hears why.
            one.failure = error
            _log.info("a sandbox of the workspace: %s", error)
        finally:
            one.settled.set()
            one.gone.set()
            if self._next is one:
                self._next = None
