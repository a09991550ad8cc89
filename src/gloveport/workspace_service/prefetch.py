"""Prefetches the next sandbox of a workspace while the current one runs, so that a command need not wait for it.

It serves a command only while the protected paths are the very same as when it was made: a file that has replaced one
since is not protected in it.
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
    """A sandbox that waits or is being made. The task that makes it holds it until ``over`` is set."""

    found: ProtectedPaths
    child: Confined | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when the sandbox is there, or has failed."""
    over: anyio.Event = field(default_factory=anyio.Event)
    removal: anyio.Event = field(default_factory=anyio.Event)
    """Set when all of it is dead, and cleared away."""
    is_dead: bool = False
    """Whether all of it was dead when it was over."""
    failure: Exception | None = None

    async def fits(self, found: ProtectedPaths) -> bool:
        """Whether it is usable and protects these paths."""
        if self.found != found:
            return False
        await self.wait_settled()
        return self.child is not None and not self.child.is_over()

    async def wait_settled(self) -> None:
        """Wait until it is there, or has failed; without a turn of the event loop where that is known."""
        if not self.settled.is_set():
            await self.settled.wait()


class SandboxPrefetch(Struct, eq=False, kw_only=True):
    """Hands out sandboxes of one fork server.

    Attributes:
        target: Where programs see the workspace.
        ahead: How many are made ahead: one, or none where only one command will run.
    """

    server: ForkServer
    target: str
    tasks: TaskGroup
    ahead: int = 1
    _next: _Next | None = None
    _command_start: anyio.Event = field(default_factory=anyio.Event)
    """Set when the next command begins."""

    def note_begun(self) -> None:
        """A command has begun: while it runs there is time to make the next sandbox, and to clear away the last."""
        self._command_start.set()
        self._command_start = anyio.Event()

    def begin(self, found: ProtectedPaths) -> None:
        """Begin to make the next sandbox."""
        self._next = self._start_making(found)

    @contextlib.asynccontextmanager
    async def take(self, found: ProtectedPaths) -> AsyncIterator[Confined]:
        """A sandbox that protects these paths; on leaving, all of its processes are dead.

        Raises:
            SandboxError: It can't be made.
            WorkspaceError: There are too many protected paths.
        """
        waiting, self._next = self._next, None
        sandbox = waiting or self._start_making(found)
        try:
            if sandbox is waiting and not await sandbox.fits(found):
                sandbox.over.set()
                sandbox = self._start_making(found)
            await sandbox.wait_settled()
            if sandbox.child is None:
                raise sandbox.failure or SandboxError("the sandbox was ended before it was used")
            if self.ahead:
                self.tasks.start_soon(self._prepare, sandbox.found)
            yield sandbox.child
            await sandbox.child.wait_dead()
            sandbox.is_dead = True
        finally:
            sandbox.over.set()
            if sandbox.child is not None and not sandbox.is_dead:
                with anyio.CancelScope(shield=True):  # its maker may be cancelled as well, and then closes it
                    await sandbox.removal.wait()

    def _start_making(self, found: ProtectedPaths) -> _Next:
        one = _Next(found=found)
        self.tasks.start_soon(self._make, one)
        return one

    async def _prepare(self, found: ProtectedPaths) -> None:
        """Make the next one, but let the command that has taken this one begin first: it would have to wait."""
        with anyio.move_on_after(_BEHIND_SECONDS):
            await self._command_start.wait()
        if self._next is None:
            self._next = _Next(found=found)
            await self._make(self._next)

    async def _make(self, one: _Next) -> None:
        try:
            async with self.server.make(one.found.kept_paths(self.target)) as child:
                one.child = child
                one.settled.set()
                await one.over.wait()
                if one.is_dead:  # nobody waits for the clean-up: an answer and the next command come first
                    with anyio.move_on_after(_CLEAR_SECONDS):
                        await self._command_start.wait()
        except (SandboxError, WorkspaceError, OSError) as error:
            # If it was used, its clean-up has failed, which concerns nobody who waits. Else its taker is told why.
            one.failure = error
            _log.info("a sandbox of the workspace: %s", error)
        finally:
            one.settled.set()
            one.removal.set()
            if self._next is one:
                self._next = None
