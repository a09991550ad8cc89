"""Sandboxes for programs of ``execute_code`` that may write to the workspace, as its commands may."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from gloveport.sandbox.base import Child
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool.pool import StockedSandbox
from gloveport.sandbox.pool.stock import Stock
from gloveport.workspace_service.kept_sandbox import KeptSandbox
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes


class ProgramSandboxes(Struct, frozen=True, kw_only=True):
    """A ``sandbox.pool.pool.StockedSandbox``.

    Attributes:
        sandboxes: Know the protected paths.
        others: Gives sandboxes that may not write to the workspace.
    """

    sandboxes: WorkspaceSandboxes
    others: StockedSandbox

    def restock(self, stocks: tuple[Stock, ...]) -> None:  # noqa: ARG002 - see the class that this is one of
        """See ``StockedSandbox``: nothing is made ahead."""
        self.others.restock(())

    def add_stock(self, plan: Plan, make: Callable[[], Stock | None]) -> None:
        """See ``StockedSandbox``: nothing is made ahead."""

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``. Raises SandboxError."""
        if not plan.writable:
            async with self.others.start(plan) as child:
                yield child
            return
        take = functools.partial(self.sandboxes.environments.servers.take, plan)
        async with KeptSandbox(sandboxes=self.sandboxes, take=take).start(plan) as child:
            yield child
