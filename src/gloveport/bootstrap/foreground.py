"""Prepares ``gloveport exec``: the directory, the configuration and the sandboxes of a person's own program."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from gloveport.bootstrap.host_setup import Host, keep_packages
from gloveport.bootstrap.operator_reach import reach_of
from gloveport.bootstrap.workspace_options import with_workspace
from gloveport.bootstrap.workspace_plans import WorkspacePlans, prepare_plans
from gloveport.config import Config, find_package, find_program, find_toolchains, refuse_as_workspace
from gloveport.config.schema import ExecProgram
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.late_module import import_now, late_module
from gloveport.model import Mount
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from gloveport.approvals.desk import Desk
    from gloveport.audit.log import AuditLog
    from gloveport.bootstrap import build, default_environment, environment_setup
    from gloveport.egress.outbound_session import Gateway
    from gloveport.engine.run_environment import RunEnvironment
    from gloveport.workspace.files import tree
    from gloveport.workspace_service import prefetch, protected_sandboxes
    from gloveport.workspace_service.command_types import CommandEnvironment
    from gloveport.workspace_service.protected_sandboxes import ProtectedSandboxes
else:
    build = late_module("gloveport.bootstrap.build")
    default_environment = late_module("gloveport.bootstrap.default_environment")
    environment_setup = late_module("gloveport.bootstrap.environment_setup")
    tree = late_module("gloveport.workspace.files.tree")
    prefetch = late_module("gloveport.workspace_service.prefetch")
    protected_sandboxes = late_module("gloveport.workspace_service.protected_sandboxes")

_SYSTEMS_PATH: Final = "/usr/bin:/bin"
_WHILE_SERVER_STARTS: Final = "gloveport.bootstrap.build", "gloveport.workspace_service.protected_sandboxes"
_WHILE_SANDBOX_IS_MADE: Final = (
    "gloveport.bootstrap.default_environment",
    "gloveport.cli.terminal.destination",
    "gloveport.workspace_service.foreground",
)


class Foreground(Struct, frozen=True, kw_only=True):
    """What one program of a person's own runs in.

    Attributes:
        program: What it is called there.
        environment: What it has besides the workspace.
        audit: Where all is written down.
        open_desk: Opens what asks a person. Raises ConfigError.
    """

    sandboxes: "ProtectedSandboxes"
    program: str
    environment: "CommandEnvironment"
    audit: "AuditLog"
    open_desk: "Callable[[], Desk]"


def with_directory(config: Config, workspace: str | None, cwd: Path) -> tuple[Config, str]:
    """The configuration with the workspace, and where in it the program begins.

    That is the one that was named, or the configured one where we are in it, or else the working directory.

    Raises:
        ConfigError: There is no such directory.
    """
    here, root = cwd.resolve(), config.workspace.root
    if workspace is None and (root is None or not here.is_relative_to(root.resolve())):
        workspace = str(here)
    config = with_workspace(config, {"root": workspace, "toolsets": ""})
    root = (config.workspace.root or here).resolve()
    return config, str(here.relative_to(root)) if here.is_relative_to(root) else "."


@contextlib.asynccontextmanager
async def open_foreground(
    host: Host,
    config: Config,
    command: str,
    environ: Mapping[str, str],
    believed: Sequence[Path] = (),
    environment: str | None = None,
    on_progress: OnProgress = no_progress,
) -> AsyncIterator[Foreground]:
    """The workspace for one program: its sandbox is begun already.

    Args:
        host: Where it runs.
        config: As ``with_directory`` gives it.
        command: What the program is called here.
        environ: Our environment.
        believed: The files that the configuration was read from, which the workspace may not hold.
        environment: Whose packages and programs it is to have; None for the workspace's.
        on_progress: Is told how far that is, where it is built first.

    Raises:
        ConfigError: The directory can't be a workspace, the program can't be shown in a sandbox, or its environment
            can't be had.
        SandboxError: This host can't build its sandboxes.
        AuditError: The audit log can't be written.
    """
    root = config.workspace.root
    if root is None:
        raise ConfigError("there is no workspace", hint="name one by --workspace")
    refuse_as_workspace(root, config, environ, believed)
    shown = [Path(mount.source) for mount in (*host.system.binds, *config.policy.mounts)]
    program, package = _find_owners(config, command, environ, [root, *shown])
    update: dict[str, object] = {"limits": config.exec.limits, "toolsets": ("workspace",)}
    if environment is not None:
        update["environment"] = environment
    if package is not None:
        update["toolchains"] = (*config.workspace.toolchains, package)
    # It calls no tools.
    alone = config.model_copy(update={"servers": {}, "workspace": config.workspace.model_copy(update=update)})
    home = Path(command).name if program_settings(config, command).home else ""
    # Of what leads out of the sandbox no more than its certificate is in the plan.
    certified = build.open_gateway(alone, environ) if leads_out(alone.way_out) else contextlib.nullcontext()
    async with certified as early, open_task_group() as tasks:
        reach = reach_of(alone, early)
        plans = prepare_plans(host.system, reach.way_out, alone, root, environ, home)
        server = plans.start_server(host.backend, tasks) if alone.workspace.environment is None else None
        await to_thread.run_sync(import_now, *_WHILE_SERVER_STARTS)
        opened = contextlib.nullcontext(early) if early is not None else build.open_gateway(alone, environ)
        with keep_packages(host.init), tree.Tree.open_tree(root, frozenset(alone.workspace.exempt)) as files:
            async with opened as gateway, open_task_group() as making:
                with build.open_audit(alone, environ, gateway.vault) as audit:
                    built = None
                    if server is None:
                        built = await _build_environment(host, plans, gateway, audit, on_progress)
                        server = plans.start_server(host.backend, tasks, built)
                    target = server.plan.writable[0].target
                    taken = prefetch.SandboxPrefetch(server=server, tasks=making, target=target, ahead=0)
                    sandboxes = protected_sandboxes.ProtectedSandboxes(
                        tree=replace(files, seen_at=target),
                        target=target,
                        prefetch=taken,
                        limits=alone.workspace.limits,
                        gateway=gateway,
                        reach=reach,
                        reach_now=lambda: reach,
                        state=plans.state,
                    )
                    await sandboxes.begin_first()
                    await to_thread.run_sync(import_now, *_WHILE_SANDBOX_IS_MADE)
                    await server.check()
                    yield Foreground(
                        sandboxes=sandboxes,
                        program=command if program is None else _inside(program, server.plan.binds),
                        environment=default_environment.default_of(alone.workspace.environment, built, taken),
                        audit=audit,
                        open_desk=functools.cache(lambda: build.open_desk(alone, environ)),
                    )


async def _build_environment(
    host: Host, plans: WorkspacePlans, gateway: "Gateway", audit: "AuditLog", on_progress: OnProgress
) -> "RunEnvironment":
    config, name = plans.config, plans.config.workspace.environment
    assert name is not None  # noqa: S101 - who has none needs none
    environments = environment_setup.open_environments(
        config, host.init, plans.environ, backend=host.backend, system=host.system, gateway=gateway
    )
    return await default_environment.build_default(environments, name, audit, on_progress)


def program_settings(config: Config, command: str) -> ExecProgram:
    """What the configuration says of a program that is called so."""
    return config.exec.programs.get(Path(command).name, ExecProgram())


def _find_owners(
    config: Config, command: str, environ: Mapping[str, str], shown: Sequence[Path]
) -> tuple[Path | None, Path | None]:
    """The program of the owner's that is meant where sandboxes have none of that name, and what is to be shown for it.

    Raises:
        ConfigError: It can't be shown.
    """
    program = Path(command).resolve() if command.startswith("/") else None
    toolchains = functools.cache(lambda: find_toolchains(config, environ))  # most programs need none
    if not find_executable(command, _SYSTEMS_PATH):
        path = ":".join(map(str, toolchains().path))
        program = program if find_executable(command, path) else find_program(command, environ)
    if program is None or any(program.is_relative_to(one) for one in shown):
        return None, None
    return program, find_package(program, config, environ, toolchains().shown)


def _inside(program: Path, mounts: Sequence[Mount]) -> str:
    """Where the sandbox has a program of ours."""
    for mount in mounts:
        if program.is_relative_to(mount.source):
            return str(PurePosixPath(mount.target, program.relative_to(mount.source)))
    return str(program)
