"""Makes sandboxes that wait: forked by a fork server, built with their interpreter started, or with a session in them.

A fork server runs for each profile: started, replaced when it is worn or dead, ended with the server. A worn one lives
until its last child has ended. Its successor has a new address space layout and hash seed, which all children of one
fork server share.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct, field

from gloveport.errors import ForkRefusedError, SandboxError
from gloveport.model import Program
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.launch.spawn import Bubblewrap, EarlyProcess
from gloveport.sandbox.plan import PathProtection, Plan, same_walls
from gloveport.sandbox.pool import zygote_process
from gloveport.sandbox.pool.stock import Stock
from gloveport.sandbox.pool.zygote_process import ZygoteProcess

if TYPE_CHECKING:
    from gloveport.sandbox.run.confined import Confined

_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0

_log = logging.getLogger(__name__)


class ForkServer(Struct, kw_only=True):
    """A ``stock.Maker``: forks sandboxes of one profile.

    Attributes:
        program: A program that says whether and how the interpreter is prestarted.
        forks: How many sandboxes a fork server forks before it is replaced.
        early_process: The process of the first fork server, if it was started before.
    """

    backend: Bubblewrap
    plan: Plan
    program: Program
    forks: int
    early_process: EarlyProcess | None = None
    _current: ZygoteProcess | None = None
    _up: anyio.Event = field(default_factory=anyio.Event)
    """Set when a fork server runs, or has failed."""
    _failure: SandboxError | None = None

    def fits(self, plan: Plan) -> bool:
        """See ``stock.Maker``: on handing out, process limits are set, and cgroup limits lowered. But a prestarted
        interpreter already has its limits.
        """
        return same_walls(self.plan, plan) and not (self.program.waiting and plan.rlimits != self.plan.rlimits)

    def is_quick(self) -> bool:
        """See ``stock.Maker``."""
        return self._current is not None

    @asynccontextmanager
    async def make(self, protections: tuple[PathProtection, ...] = ()) -> "AsyncIterator[Confined]":
        """See ``stock.Maker``. Waits for a fork server if there is none yet.

        ``protections``: see ``ZygoteProcess.fork``.
        """
        current = await self.check()
        if current.forks + 1 >= self.forks:
            current.worn.set()
        async with current.fork(protections) as child:
            if self.program.waiting:
                await child.boot(self.program)
            yield child

    async def check(self) -> ZygoteProcess:
        """Return the running fork server; wait until there is one.

        Raises:
            ForkRefusedError: This host permits none.
            SandboxError: It can't be started.
        """
        while (current := self._current) is None:
            await self._up.wait()
            if self._failure is not None:
                raise self._failure.with_traceback(None)  # else it would keep each run that has raised it
        return current

    async def maintain(self) -> None:
        """See ``stock.Maker``."""
        pause = _PAUSE_SECONDS
        async with anyio.create_task_group() as tasks:
            while True:
                previous = self._current
                try:
                    current = await tasks.start(self._run_one)
                except ForkRefusedError as error:  # permanent, and reported by ``doctor`` and at the start
                    self._failure = error
                    self._up.set()
                    await anyio.sleep_forever()
                except SandboxError as error:
                    # Runs report the same error: their cold sandboxes fail the same way.
                    _log.warning("no fork server can be started: %s", error.args[0])
                    self._failure = error
                    self._up.set()
                else:
                    self._current, self._failure = current, None
                    self._up.set()
                    if previous is not None:
                        previous.retired.set()
                    await current.worn.wait()
                    if current.is_alive():
                        pause = _PAUSE_SECONDS
                        continue
                    self._current, self._up = None, anyio.Event()
                    _log.warning("a fork server died after %d sandboxes; another takes its place", current.forks)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run_one(self, *, task_status: TaskStatus[ZygoteProcess]) -> None:
        """Run one fork server until it is dead, or retired and without children."""
        current = None
        try:
            early_process, self.early_process = self.early_process, None
            started = zygote_process.start(self.backend, self.plan, early_process)
            async with started as current, anyio.create_task_group() as tasks:
                tasks.start_soon(_until_dead, current, tasks.cancel_scope)
                task_status.started(current)
                await current.retired.wait()
                await current.until_childless()
                tasks.cancel_scope.cancel()
        except SandboxError as error:
            if current is None:
                raise
            _log.warning("a fork server could not be cleared away: %s", error.args[0])


class SessionStarter(Struct, frozen=True, kw_only=True):
    """A ``stock.Maker``: takes sandboxes for one program, and starts a session's supervisor in each.

    Attributes:
        source: Makes the sandboxes, with the same walls.
        plan: The plan of a session with all that the policy gives.
        program: The supervisor's program.
    """

    source: Stock
    plan: Plan
    program: Program

    def fits(self, plan: Plan) -> bool:
        """See ``stock.Maker``: a running supervisor already has its limits; only cgroup limits can be lowered."""
        return (
            plan.session is not None
            and plan.session == self.plan.session
            and plan.rlimits == self.plan.rlimits
            and plan.limits.cpu_seconds == self.plan.limits.cpu_seconds  # a process limit, if no cgroup counts it
            and same_walls(self.plan, plan)
        )

    def is_quick(self) -> bool:
        """See ``stock.Maker``."""
        return self.source.maker.is_quick()

    @asynccontextmanager
    async def make(self) -> "AsyncIterator[Confined]":
        """See ``stock.Maker``."""
        self.source.begin()
        waiting = await self.source.make()
        try:
            waiting.child.narrow(self.plan)
            await waiting.child.prepare_session(self.program)
            yield waiting.child
        finally:
            await waiting.remove()

    async def maintain(self) -> None:
        """See ``stock.Maker``: nothing. The source maintains itself as long as one of its sandboxes exists."""


async def _until_dead(current: ZygoteProcess, scope: anyio.CancelScope) -> None:
    await current.until_dead()
    current.worn.set()
    scope.cancel()


class Prestarter(Struct, frozen=True, kw_only=True):
    """A ``stock.Maker``: builds sandboxes that can't be forked, such as Deno's, and prestarts their interpreter.

    Attributes:
        program: A program that says how the interpreter is started; its text is not used.
    """

    backend: Bubblewrap
    plan: Plan
    program: Program

    def fits(self, plan: Plan) -> bool:
        """See ``stock.Maker``: a prestarted interpreter already has its limits; only cgroup limits can be lowered."""
        return plan.rlimits == self.plan.rlimits and same_walls(self.plan, plan)

    def is_quick(self) -> bool:
        """See ``stock.Maker``."""
        return False

    @asynccontextmanager
    async def make(self) -> "AsyncIterator[Confined]":
        """See ``stock.Maker``."""
        async with self.backend.build(self.plan) as child:
            if child.group is not None:
                child.group.set_weight(cgroup.BACKGROUND)
            await child.boot(self.program)
            if child.group is not None:
                child.group.set_weight(1)
            yield child

    async def maintain(self) -> None:
        """See ``stock.Maker``: nothing."""
