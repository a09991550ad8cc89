"""Opens the sandboxes of a workspace: where its commands run, and what our own tools read it in."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from gloveport.bootstrap.workspace_plans import WorkspacePlans
from gloveport.config import Config
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.execution import Engine
from gloveport.engine.run_context import RunContext
from gloveport.errors import ConfigError, Denied
from gloveport.guard import Guard
from gloveport.model import Grant
from gloveport.sandbox.plan import Kept
from gloveport.sandbox.pool.makers import ForkServer
from gloveport.task_group import open_task_group
from gloveport.workspace.commands import registry
from gloveport.workspace.files.tree import Tree
from gloveport.workspace_service.command_environments import CommandEnvironments
from gloveport.workspace_service.command_types import CommandEnvironment
from gloveport.workspace_service.fork_servers import ForkServers
from gloveport.workspace_service.prefetch import SandboxPrefetch
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

if TYPE_CHECKING:
    from gloveport.engine.run_environment import RunEnvironment


@contextlib.asynccontextmanager
async def open_sandboxes(
    engine: Engine,
    plans: WorkspacePlans,
    grace: float,
    server: ForkServer | None = None,
    on_progress: OnProgress = no_progress,
) -> AsyncIterator[WorkspaceSandboxes]:
    """The workspace that is planned for.

    Args:
        engine: What runs the commands.
        plans: Those of its sandboxes.
        grace: Commands go on for so many seconds when nothing is heard of their clients.
        server: Forks the sandboxes, where it was started before.
        on_progress: Is told how far the environment of its commands is, where that is built first.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: This host can't build its sandboxes.
    """
    config, settings = plans.config, plans.config.workspace
    with Tree.open_tree(plans.root, frozenset(settings.exempt)) as tree:
        async with open_task_group() as tasks, registry.open_commands(grace, engine.spool) as commands:
            try:
                environment = None
                if server is None:
                    environment = await _open_environment(engine, config, on_progress)
                    server = plans.start_server(engine.backend, tasks, environment)
                plan, target = server.plan, server.plan.writable[0].target
                everything: tuple[Kept, ...] = tuple((mount.target, "read-only") for mount in plan.writable)
                await server.check()
                prefetch = SandboxPrefetch(server=server, tasks=tasks, target=target, ahead=int(not plans.is_lone))
                default = CommandEnvironment(
                    name=settings.environment,
                    plan=plan,
                    take=prefetch.take,
                    variables={} if environment is None else environment.variables(plan.env["PATH"]),
                )
                servers = ForkServers(backend=engine.backend, target=target, forks=config.pool.forks, tasks=tasks)
                yield WorkspaceSandboxes(
                    engine=engine,
                    tree=replace(tree, seen_at=target),
                    target=target,
                    prefetch=prefetch,
                    environments=CommandEnvironments(
                        engine=engine, default=default, plan_with=plans.plan, servers=servers
                    ),
                    workers=ReadonlyWorkers(make=server.make, kept=everything, tasks=tasks, target=target),
                    commands=commands,
                    limits=settings.limits,
                    reach=engine.reach,
                    state=plans.state,
                    owners_path=plans.environ.get("PATH", ""),
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await commands.end()


async def _open_environment(engine: Engine, config: Config, on_progress: OnProgress) -> "RunEnvironment | None":
    """The environment of its commands, which is built where it is not there.

    Raises:
        ConfigError: It can't be.
    """
    name = config.workspace.environment
    if name is None:
        return None
    guard = Guard(grant=Grant(), audit=engine.audit, caller="workspace", run_id=RunContext().run_id)
    try:
        return await engine.environments.open_named(name, guard, on_progress)
    except Denied as error:
        raise ConfigError(f"the environment of commands: {error.reason}", hint=error.hint) from error
