"""Opens the sandboxes of a workspace: those of its commands, and those in which our own tools read it."""

import contextlib
from collections.abc import AsyncIterator

import anyio
from msgspec.structs import replace

from gloveport.bootstrap.default_environment import build_default, default_of
from gloveport.bootstrap.workspace_plans import WorkspacePlans
from gloveport.engine.execution import Engine
from gloveport.sandbox.plan import PathProtection
from gloveport.task_group import open_task_group
from gloveport.workspace.commands import registry
from gloveport.workspace.files.tree import Tree
from gloveport.workspace_service.command_environments import CommandEnvironments
from gloveport.workspace_service.fork_servers import ForkServers
from gloveport.workspace_service.prefetch import SandboxPrefetch
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes


@contextlib.asynccontextmanager
async def open_sandboxes(engine: Engine, plans: WorkspacePlans, grace: float) -> AsyncIterator[WorkspaceSandboxes]:
    """Open the sandboxes of the planned workspace. Commands continue for ``grace`` seconds when their client is silent.

    Raises:
        ConfigError: It is no directory that can be one, or the environment of its commands can't be had.
        SandboxError: This host can't build its sandboxes.
    """
    config, settings = plans.config, plans.config.workspace
    with Tree.open_tree(plans.root, frozenset(settings.exempt)) as tree:
        async with open_task_group() as tasks, registry.open_commands(grace, engine.spool) as commands:
            try:
                environment = None
                if settings.environment is not None:
                    environment = await build_default(engine.environments, settings.environment, engine.audit)
                server = plans.start_server(engine.backend, tasks, plans.plan(environment))
                plan, target = server.plan, server.plan.writable[0].target
                everything: tuple[PathProtection, ...] = tuple((mount.target, "read-only") for mount in plan.writable)
                await server.check()
                prefetch = SandboxPrefetch(server=server, tasks=tasks, target=target)
                default = default_of(settings.environment, environment, prefetch)
                servers = ForkServers(backend=engine.backend, target=target, forks=config.pool.forks, tasks=tasks)
                yield WorkspaceSandboxes(
                    engine=engine,
                    tree=replace(tree, seen_at=target),
                    target=target,
                    prefetch=prefetch,
                    environments=CommandEnvironments(
                        engine=engine, default=default, plan_with=plans.plan, servers=servers
                    ),
                    workers=ReadonlyWorkers(make=server.make, protections=everything, tasks=tasks, target=target),
                    commands=commands,
                    limits=settings.limits,
                    gateway=engine.gateway,
                    reach=engine.reach,
                    reach_now=lambda: engine.reach,
                    state=plans.state,
                    owners_path=plans.environ.get("PATH", ""),
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await commands.end()
