"""Opens what ``gloveport exec`` runs a program in: the planned sandbox, its outbound gateway, and the audit log."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from gloveport.bootstrap.foreground_plan import ForegroundPlan
from gloveport.bootstrap.host_setup import Host, keep_packages
from gloveport.bootstrap.operator_reach import reach_of
from gloveport.bootstrap.workspace_plans import WorkspacePlans
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.late_module import import_now, late_module
from gloveport.model import Mount
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from gloveport.approvals.desk import Desk
    from gloveport.audit.log import AuditLog
    from gloveport.bootstrap import build, default_environment, environment_setup
    from gloveport.egress.outbound_session import Gateway
    from gloveport.engine.run_environment import RunEnvironment
    from gloveport.sandbox.pool.makers import ForkServer
    from gloveport.workspace.files import tree
    from gloveport.workspace.files.tree import Tree
    from gloveport.workspace.protected import protected_state
    from gloveport.workspace.protected.protected_paths import ProtectedPaths
    from gloveport.workspace_service import prefetch, protected_sandboxes
    from gloveport.workspace_service.command_types import CommandEnvironment
    from gloveport.workspace_service.prefetch import SandboxPrefetch
    from gloveport.workspace_service.protected_sandboxes import ProtectedSandboxes
else:
    build = late_module("gloveport.bootstrap.build")
    default_environment = late_module("gloveport.bootstrap.default_environment")
    environment_setup = late_module("gloveport.bootstrap.environment_setup")
    tree = late_module("gloveport.workspace.files.tree")
    protected_state = late_module("gloveport.workspace.protected.protected_state")
    prefetch = late_module("gloveport.workspace_service.prefetch")
    protected_sandboxes = late_module("gloveport.workspace_service.protected_sandboxes")

_TO_FORK: Final = (
    "gloveport.sandbox.run.supervised_calls",
    "gloveport.workspace.protected.protected_state",
    "gloveport.workspace_service.prefetch",
)
"""What is imported while the fork server starts."""

_TO_RUN: Final = (
    "gloveport.bootstrap.build",
    "gloveport.bootstrap.default_environment",
    "gloveport.cli.terminal.destination",
    "gloveport.workspace_service.foreground",
)
"""What is imported while the sandbox is forked."""


class Foreground(Struct, frozen=True, kw_only=True):
    """The context of one program that a person runs.

    Attributes:
        program: Its path in the sandbox.
        environment: What it has besides the workspace.
        open_desk: Opens what asks a person. Raises ConfigError.
    """

    sandboxes: "ProtectedSandboxes"
    program: str
    environment: "CommandEnvironment"
    audit: "AuditLog"
    open_desk: "Callable[[], Desk]"


@contextlib.asynccontextmanager
async def open_foreground(
    host: Host, planned: ForegroundPlan, on_progress: OnProgress = no_progress
) -> AsyncIterator[Foreground]:
    """Open the planned context; the sandbox itself has been started already. ``on_progress`` hears of its environment's
    build, if there is one.

    Raises:
        ConfigError: Its environment can't be had.
        SandboxError: This host can't build its sandbox.
        AuditError: The audit log can't be written.
    """
    config, environ, early_sandbox = planned.config, planned.environ, planned.early_sandbox
    # Of the outbound gateway only the certificate is in the plan.
    certified = build.open_gateway(config, environ) if leads_out(config.way_out) else contextlib.nullcontext()
    async with certified as early, open_task_group() as tasks:
        server = None
        if early_sandbox is not None:
            reach, plans = early_sandbox.reach, early_sandbox.plans
            server = plans.start_server(host.backend, tasks, early_sandbox.plan, early_sandbox.process)
        else:
            reach = reach_of(config, early)
            plans = planned.prepare_plans(host, reach)
            if config.workspace.environment is None:
                server = plans.start_server(host.backend, tasks, plans.plan())
        await to_thread.run_sync(import_now, *_TO_FORK)
        exempt = frozenset(config.workspace.exempt)
        with keep_packages(host.init), tree.Tree.open_tree(planned.root, exempt) as files:
            async with open_task_group() as making:
                forked = None if server is None else await _fork(server, files, plans, making)
                await to_thread.run_sync(import_now, *_TO_RUN)
                opened = contextlib.nullcontext(early) if early is not None else build.open_gateway(config, environ)
                async with opened as gateway:
                    with build.open_audit(config, environ, gateway.vault) as audit:
                        built = None
                        if forked is None:
                            built = await _build_environment(host, plans, gateway, audit, on_progress)
                            server = plans.start_server(host.backend, tasks, plans.plan(built))
                            forked = await _fork(server, files, plans, making)
                        await forked.source.server.check()
                        yield Foreground(
                            sandboxes=protected_sandboxes.ProtectedSandboxes(
                                tree=forked.tree,
                                target=forked.source.target,
                                prefetch=forked.source,
                                limits=config.workspace.limits,
                                gateway=gateway,
                                reach=reach,
                                reach_now=lambda: reach,
                                state=plans.state,
                                first_protected=forked.protected,
                            ),
                            program=_inside(planned, forked.source.server.plan.binds),
                            environment=default_environment.default_of(
                                config.workspace.environment, built, forked.source
                            ),
                            audit=audit,
                            open_desk=functools.cache(lambda: build.open_desk(config, environ)),
                        )


class _Forked(NamedTuple):
    """A sandbox that was forked.

    Attributes:
        protected: The paths that are protected from its program.
        tree: The workspace, with its path in the sandbox.
    """

    protected: "ProtectedPaths"
    tree: "Tree"
    source: "SandboxPrefetch"


async def _fork(server: "ForkServer", files: "Tree", plans: WorkspacePlans, tasks: "TaskGroup") -> _Forked:
    """Fork the sandbox as soon as there is a fork server: it protects the paths that are protected now."""
    target = server.plan.writable[0].target
    sandbox_tree = replace(files, seen_at=target)
    protected = await to_thread.run_sync(protected_state.find_first, sandbox_tree, plans.state)
    source = prefetch.SandboxPrefetch(server=server, tasks=tasks, target=target, ahead=0)
    source.begin(protected)
    return _Forked(protected, sandbox_tree, source)


async def _build_environment(
    host: Host, plans: WorkspacePlans, gateway: "Gateway", audit: "AuditLog", on_progress: OnProgress
) -> "RunEnvironment":
    config, name = plans.config, plans.config.workspace.environment
    assert name is not None  # noqa: S101 - who has none needs none
    environments = environment_setup.open_environments(
        config, host.init, plans.environ, backend=host.backend, system=host.system, gateway=gateway
    )
    return await default_environment.build_default(environments, name, audit, on_progress)


def _inside(planned: ForegroundPlan, mounts: Sequence[Mount]) -> str:
    """The program's path in the sandbox."""
    program: Path | None = planned.program
    if program is None:
        return planned.command
    for mount in mounts:
        if program.is_relative_to(mount.source):
            return str(PurePosixPath(mount.target, program.relative_to(mount.source)))
    return str(program)
