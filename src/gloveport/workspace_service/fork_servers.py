"""Fork servers for the sandboxes of a workspace that may never be wanted.

Each sandbox is forked when its program comes: by then the protected paths may differ from those at an earlier moment.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.model import Limits, Program
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool.makers import ForkServer
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.protected.protected_paths import ProtectedPaths

_MOST_IDLE: Final = 5
"""Unused fork servers: there is one for each language, environment, and set of limits that was asked for."""


class _Profile(Struct, eq=False, kw_only=True):
    """The fork server of one plan."""

    server: ForkServer
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    users: int = 0

    async def maintain(self) -> None:
        with self.scope:
            await self.server.maintain()

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1


class ForkServers(Struct, eq=False, kw_only=True):
    """Starts fork servers when they are first wanted.

    Attributes:
        target: Where programs see the workspace.
        forks: How many sandboxes a fork server forks before it is replaced.
    """

    backend: Bubblewrap
    target: str
    forks: int
    tasks: TaskGroup
    _profiles: dict[str, _Profile] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def take(self, plan: Plan, found: ProtectedPaths) -> AsyncIterator[Confined]:
        """A sandbox of this plan that protects these paths. Raises as ``ForkServer.make``."""
        profile = self._profile_of(plan)
        with profile.use():
            async with profile.server.make(found.kept_paths(self.target)) as child:
                yield child

    def _profile_of(self, plan: Plan) -> _Profile:
        """The fork server of this plan. A new one ends those that are unused for the longest time."""
        key = _key(plan)
        profile = self._profiles.pop(key, None)
        if profile is None:
            idle = [name for name, one in self._profiles.items() if not one.users]
            for name in idle[: max(0, len(idle) + 1 - _MOST_IDLE)]:
                self._profiles.pop(name).scope.cancel()
            server = ForkServer(backend=self.backend, plan=plan, program=Program(name="program"), forks=self.forks)
            profile = _Profile(server=server)
            self.tasks.start_soon(profile.maintain)
        self._profiles[key] = profile
        return profile


def _key(plan: Plan) -> str:
    """What two plans must share for one fork server to fork for both: all that can't be set later."""
    usual = Limits()
    timed = {name: getattr(usual, name) for name in ("wall_seconds", "cpu_seconds", "output_bytes")}
    rlimits = {name: limit for name, limit in plan.rlimits.items() if name not in ("RLIMIT_CPU", "RLIMIT_AS")}
    return plan.model_copy(
        update={"limits": plan.limits.model_copy(update=timed), "rlimits": rlimits, "session": None}
    ).model_dump_json()
