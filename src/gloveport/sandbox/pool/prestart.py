"""Builds sandboxes with an interpreter started ahead of its program: for those that can't be forked, such as Deno."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gloveport.model import Program
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan, same_walls
from gloveport.sandbox.run.confined import Confined


@dataclass(frozen=True, kw_only=True)
class Prestarter:
    """A ``pool.Maker``: builds sandboxes, and boots their interpreter.

    Attributes:
        program: One that says how the interpreter is started; its text is not used.
    """

    backend: Bubblewrap
    plan: Plan
    program: Program

    def fits(self, plan: Plan) -> bool:
        """See ``pool.Maker``: an interpreter that runs already has its limits, only those of cgroups can be lowered."""
        return plan.rlimits == self.plan.rlimits and same_walls(self.plan, plan)

    def is_quick(self) -> bool:
        """See ``pool.Maker``."""
        return False

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Confined]:
        """See ``pool.Maker``."""
        async with self.backend.build(self.plan) as child:
            if child.group is not None:
                child.group.set_weight(cgroup.BACKGROUND)
            await child.boot(self.program)
            if child.group is not None:
                child.group.set_weight(1)
            yield child

    async def maintain(self) -> None:
        """See ``pool.Maker``: nothing."""
