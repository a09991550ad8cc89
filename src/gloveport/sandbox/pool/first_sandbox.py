"""Builds sandboxes; the first was started before the event loop."""

from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from gloveport.sandbox.base import Child
from gloveport.sandbox.launch.spawn import Bubblewrap, EarlyProcess
from gloveport.sandbox.plan import Plan, same_walls


class EarlyBuild(Struct, frozen=True, kw_only=True):
    """A sandbox of ``plan`` that is being started."""

    plan: Plan
    process: EarlyProcess


class FirstSandbox(Struct, kw_only=True):
    """A ``sandbox.base.Sandbox``.

    Attributes:
        early_build: The first sandbox, for the first request of its walls; None if none was started, or it was taken.
    """

    backend: Bubblewrap
    early_build: EarlyBuild | None

    def start(self, plan: Plan) -> AbstractAsyncContextManager[Child]:
        """See ``sandbox.base.Sandbox``."""
        process = None
        if self.early_build is not None and same_walls(self.early_build.plan, plan):
            process, self.early_build = self.early_build.process, None
        self.close()
        return self.backend.build(plan, process)

    def close(self) -> None:
        """End the first sandbox if nobody has taken it."""
        if self.early_build is not None:
            self.early_build.process.stack.close()
            self.early_build = None
