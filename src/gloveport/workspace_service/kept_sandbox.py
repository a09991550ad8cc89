"""A sandbox that may write to a workspace for longer than one command, and never to its protected paths.

Protected paths were mounted when it was made. So nothing more may run in it once other paths are protected, and when it
ends, the audit log tells which such paths have appeared meanwhile.
"""

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence

import anyio
from msgspec import Struct

from gloveport.errors import AuditError, ConfigError, SandboxError
from gloveport.sandbox.base import Child
from gloveport.sandbox.plan import Plan
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.protected import config_copies
from gloveport.workspace.protected.config_copies import ConfigCopy
from gloveport.workspace.protected.protected_paths import ProtectedPaths
from gloveport.workspace_service.command_types import Take
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes


class KeptSandbox(Struct, kw_only=True):
    """A ``sandbox.base.Sandbox`` that starts one sandbox."""

    sandboxes: WorkspaceSandboxes
    take: Take
    _copies: Sequence[ConfigCopy] = ()
    """Its copies of git's configurations."""

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``. Raises SandboxError."""
        changes: list[str] = []
        try:
            async with (
                self.sandboxes.notice_changes(changes) as found,
                self.sandboxes.open_sandbox(plan.limits, found, self.take) as child,
            ):
                child.narrow(plan)
                child.look_stale = functools.partial(self._look_stale, found)
                self._copies = config_copies.copies_in(child.protections, self.sandboxes.target)
                try:
                    yield child
                finally:
                    with anyio.CancelScope(shield=True):
                        changes += await self.save_configs(child)
        except (ConfigError, WorkspaceError) as error:
            raise SandboxError(str(error.args[0]), hint=error.hint) from error
        finally:
            # Where nothing can be written down, the next call is refused, and says so.
            with contextlib.suppress(AuditError):
                if changes:
                    self.sandboxes.engine.audit.append("session.changed", {"appeared": [*changes]})

    async def save_configs(self, child: Child) -> list[str]:
        """See ``WorkspaceSandboxes``."""
        return await self.sandboxes.save_configs(child, self._copies)

    async def _look_stale(self, found: ProtectedPaths) -> str:
        now = await self.sandboxes.look()
        if self.sandboxes.with_own_writes(now) == self.sandboxes.with_own_writes(found):
            return ""
        return "what is protected in the workspace has changed since it began, and it could write to that"
