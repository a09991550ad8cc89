"""The default environment of a workspace's commands: configured for all commands that name none."""

from typing import TYPE_CHECKING

from gloveport.audit.log import AuditLog
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.errors import ConfigError, Denied
from gloveport.guard import Guard
from gloveport.late_module import late_module
from gloveport.model import Grant
from gloveport.workspace_service.command_types import CommandEnvironment
from gloveport.workspace_service.prefetch import SandboxPrefetch

if TYPE_CHECKING:
    from gloveport.engine import run_context
    from gloveport.engine.environment_provider import Environments
    from gloveport.engine.run_environment import RunEnvironment
else:
    run_context = late_module("gloveport.engine.run_context")


async def build_default(
    environments: "Environments", name: str, audit: AuditLog, on_progress: OnProgress = no_progress
) -> "RunEnvironment":
    """The environment of this name, built if it is missing. Raises ConfigError if it can't be built."""
    guard = Guard(grant=Grant(), audit=audit, caller="workspace", run_id=run_context.RunContext().run_id)
    try:
        return await environments.open_named(name, guard, on_progress)
    except Denied as error:
        raise ConfigError(f"the environment of commands: {error.reason}", hint=error.hint) from error


def default_of(name: str | None, found: "RunEnvironment | None", prefetch: SandboxPrefetch) -> CommandEnvironment:
    """The same for commands, whose sandboxes come from ``prefetch``; also without an environment."""
    plan = prefetch.server.plan
    variables = {} if found is None else found.variables(plan.env["PATH"])
    return CommandEnvironment(name=name, plan=plan, take=prefetch.take, variables=variables)
