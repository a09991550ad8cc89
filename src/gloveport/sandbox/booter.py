"""Builds sandboxes with an interpreter started ahead of its program: for those that can't be forked, such as Deno."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from gloveport.errors import GuestError, SandboxError
from gloveport.model import Program
from gloveport.sandbox.base import Plan, same_walls
from gloveport.sandbox.confined import Confined
from gloveport.sandbox.spawn import Bubblewrap

_BOOT_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Booter:
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
            try:
                with anyio.fail_after(_BOOT_SECONDS):
                    await child.boot(self.program)
            except (TimeoutError, GuestError, OSError) as error:
                name = self.program.argv[0]
                raise SandboxError(f"{name} did not start: {error}", hint="`gloveport doctor` tries it") from error
            yield child

    async def keep(self) -> None:
        """See ``pool.Maker``: nothing."""
