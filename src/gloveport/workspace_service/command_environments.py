"""Environments of commands: the workspace's default, and those that single commands name."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.execution import Engine
from gloveport.errors import Denied, SandboxError
from gloveport.guard import Guard
from gloveport.sandbox.plan import Plan
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace_service.command_types import CommandEnvironment
from gloveport.workspace_service.fork_servers import ForkServers

if TYPE_CHECKING:
    from gloveport.engine.run_environment import RunEnvironment


class CommandEnvironments(Struct, frozen=True, kw_only=True):
    """The environments of one workspace's commands.

    Attributes:
        default: For commands that name no environment.
        plan_with: Plans their sandboxes with the packages and programs of an environment.
        servers: Fork the sandboxes of all environments but the default.
    """

    engine: Engine
    default: CommandEnvironment
    plan_with: "Callable[[RunEnvironment], Plan]"
    servers: ForkServers

    async def open_named(
        self, name: str | None, guard: Guard, on_progress: OnProgress = no_progress
    ) -> CommandEnvironment:
        """The operator's environment of this name, built first where it is missing; None for the default.

        Raises:
            WorkspaceError: INVALID_ARGUMENT: it does not exist, or can't be built, which is recorded;
                SANDBOX_UNAVAILABLE.
            AuditError: It can't be written down.
        """
        if name is None or name == self.default.name:
            return self.default
        try:
            found = await self.engine.environments.open_named(name, guard, on_progress)
        except Denied as denial:
            guard.deny("command", denial, {"environment": name})
            details = {"reason": denial.code}
            raise WorkspaceError("INVALID_ARGUMENT", denial.reason, hint=denial.hint, details=details) from denial
        except SandboxError as error:
            raise WorkspaceError("SANDBOX_UNAVAILABLE", str(error.args[0]), hint=error.hint, retryable=True) from error
        plan = await to_thread.run_sync(self.plan_with, found)
        return CommandEnvironment(
            name=name,
            plan=plan,
            take=functools.partial(self.servers.take, plan),
            variables=found.variables(self.default.plan.env["PATH"]),
        )
