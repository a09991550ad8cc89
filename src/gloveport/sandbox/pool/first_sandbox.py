"""Builds sandboxes; the first of them was begun before there was an event loop."""

import contextlib
from collections.abc import AsyncIterator

from msgspec import Struct

from gloveport.sandbox.base import Child
from gloveport.sandbox.launch.spawn import BegunProcess, Bubblewrap
from gloveport.sandbox.plan import Plan, same_walls


class BegunBuild(Struct, frozen=True, kw_only=True):
    """A sandbox of ``plan``, on its way."""

    plan: Plan
    process: BegunProcess


class FirstSandbox(Struct, kw_only=True):
    """A ``sandbox.base.Sandbox``.

    Attributes:
        backend: Builds them.
        begun: The first, for whoever asks first, and for its walls; None where nothing was begun, or it was asked for.
    """

    backend: Bubblewrap
    begun: BegunBuild | None

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``."""
        process = None
        if self.begun is not None and same_walls(self.begun.plan, plan):
            process, self.begun = self.begun.process, None
        self.close()
        async with self.backend.build(plan, process) as child:
            yield child

    def close(self) -> None:
        """End what was begun and is not asked for."""
        if self.begun is not None:
            self.begun.process.stack.close()
            self.begun = None
