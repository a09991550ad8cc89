"""One sandbox of a workspace that is made ahead, so that a command need not wait for it.

It counts only for a command from which the very same is to be kept as when it was made: what was put in the place of
a file since is kept from nobody.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from gloveport.errors import SandboxError
from gloveport.sandbox.confined import Confined
from gloveport.sandbox.forkserver import ForkServer
from gloveport.workspace.keeping import Found

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Waiting:
    found: Found
    child: Confined
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(eq=False, kw_only=True)
class Spares:
    """Hands out sandboxes of one fork server, a waiting one where there is one that fits.

    Attributes:
        target: Where programs see the workspace.
    """

    server: ForkServer
    target: str
    tasks: TaskGroup
    _waiting: _Waiting | None = None
    _making: bool = False

    @contextlib.asynccontextmanager
    async def take(self, found: Found) -> AsyncIterator[Confined]:
        """A sandbox in which this is kept; on leaving, nothing is left of it, or soon. Another one is made then.

        Raises:
            SandboxError: It can't be made.
            WorkspaceError: Too much is to be kept.
        """
        waiting, self._waiting = self._waiting, None
        try:
            if waiting is not None and waiting.found == found and not waiting.child.is_over():
                yield waiting.child
            else:
                async with self.server.make(found.kept(self.target)) as child:
                    yield child
        finally:
            if waiting is not None:
                waiting.over.set()
            if not self._making:
                self._making = True
                self.tasks.start_soon(self._make, found)

    async def _make(self, found: Found) -> None:
        try:
            async with self.server.make(found.kept(self.target)) as child:
                one = _Waiting(found=found, child=child)
                self._making, before, self._waiting = False, self._waiting, one
                if before is not None:
                    before.over.set()
                await one.over.wait()
        except SandboxError as error:  # whoever needs one hears why
            _log.info("no sandbox is made ahead: %s", error.args[0])
        finally:
            self._making = False
