"""Plans the sandbox of ``gloveport exec``, and starts it before the event loop is imported. That import takes a fifth
of the whole start, during which the sandbox starts.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.bootstrap.host_setup import Host
from gloveport.bootstrap.operator_reach import reach_of
from gloveport.bootstrap.workspace_options import with_workspace
from gloveport.bootstrap.workspace_plans import WorkspacePlans, prepare_plans
from gloveport.config import (
    Config,
    find_package,
    find_program,
    find_toolchains,
    leads_through,
    refuse_as_workspace,
)
from gloveport.config.schema import ExecProgram
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.reach import Reach
from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.real_paths import real
from gloveport.sandbox.launch.spawn import EarlyProcess
from gloveport.sandbox.plan import Plan

_SYSTEMS_PATH: Final = "/usr/bin:/bin"


class EarlySandbox(Struct, frozen=True, kw_only=True):
    """The sandbox's fork server, while it starts.

    Attributes:
        plan: The plan that it is started with.
    """

    reach: Reach
    plans: WorkspacePlans
    plan: Plan
    process: EarlyProcess


class ForegroundPlan(Struct, frozen=True, kw_only=True):
    """The planned context of one program that a person runs.

    Attributes:
        config: The workspace's configuration, for this program alone.
        workdir: The program's working directory in it.
        command: The program's name here.
        program: Its path, if the sandbox has to be shown it.
        early_sandbox: Its sandbox; None if it can't be planned yet, since its certificate or packages are missing.
    """

    config: Config
    root: Path
    workdir: str
    command: str
    program: Path | None
    environ: Mapping[str, str]
    early_sandbox: EarlySandbox | None

    def prepare_plans(self, host: Host, reach: Reach) -> WorkspacePlans:
        """The plans of the workspace, for this reach."""
        return _prepare(host, reach, self.config, self.root, self.command, self.environ)


def plan_foreground(
    host: Host,
    config: Config,
    workspace: str | None,
    command: str,
    environ: Mapping[str, str],
    believed: Sequence[Path] = (),
    environment: str | None = None,
) -> ForegroundPlan:
    """Plan it, and start as much as possible. The workspace is the named one, or the configured one if we are inside
    it, or else the working directory. The files ``believed``, from which the configuration was read, must not lie in
    it. Without an ``environment``, the program has the workspace's.

    Raises:
        ConfigError: The directory can't be a workspace, or the program can't be shown in a sandbox.
        SandboxError: This host can't build its sandbox.
    """
    config, root, workdir = _with_directory(config, workspace, Path.cwd())
    refuse_as_workspace(root, config, environ, believed)
    shown_paths = [Path(mount.source) for mount in (*host.system.binds, *config.policy.mounts)]
    program, package = _find_owners(config, command, environ, root, shown_paths)
    update: dict[str, object] = {"limits": config.exec.limits, "toolsets": ("workspace",)}
    if environment is not None:
        update["environment"] = environment
    if package is not None:
        update["toolchains"] = (*config.workspace.toolchains, package)
    # It calls no tools.
    alone = config.model_copy(update={"servers": {}, "workspace": config.workspace.model_copy(update=update)})
    early_sandbox = None
    if alone.workspace.environment is None and not leads_out(alone.way_out):
        reach = reach_of(alone, None)
        plans = _prepare(host, reach, alone, root, command, environ)
        plan = plans.plan()
        early_sandbox = EarlySandbox(reach=reach, plans=plans, plan=plan, process=host.backend.begin_zygote(plan))
    return ForegroundPlan(
        config=alone,
        root=root,
        workdir=workdir,
        command=command,
        program=program,
        environ=environ,
        early_sandbox=early_sandbox,
    )


def _with_directory(config: Config, workspace: str | None, cwd: Path) -> tuple[Config, Path, str]:
    """The configuration with the workspace, the workspace, and the program's working directory in it."""
    here, root = real(cwd), config.workspace.root
    if workspace is None and (root is None or not here.is_relative_to(real(root))):
        workspace = str(here)
    config = with_workspace(config, {"root": workspace, "toolsets": ""})
    if config.workspace.root is None:
        raise ConfigError("there is no workspace", hint="name one by --workspace")
    root = real(config.workspace.root)
    return config, config.workspace.root, str(here.relative_to(root)) if here.is_relative_to(root) else "."


def _prepare(
    host: Host, reach: Reach, config: Config, root: Path, command: str, environ: Mapping[str, str]
) -> WorkspacePlans:
    home = Path(command).name if program_settings(config, command).home else ""
    return prepare_plans(host.system, reach.way_out, config, root, environ, home)


def program_settings(config: Config, command: str) -> ExecProgram:
    """The configured settings of a program of this name."""
    return config.exec.programs.get(Path(command).name, ExecProgram())


def _find_owners(
    config: Config, command: str, environ: Mapping[str, str], root: Path, shown_paths: Sequence[Path]
) -> tuple[Path | None, Path | None]:
    """The owner's program of this name, if sandboxes have none, and the paths to show for it.

    Raises:
        ConfigError: It can't be shown.
    """
    if command.startswith("/") and leads_through(Path(command), root):  # the workspace's own, wherever it leads
        return None, None
    program = real(Path(command)) if command.startswith("/") else None
    toolchains = functools.cache(lambda: find_toolchains(config, environ))  # most programs need none
    if not find_executable(command, _SYSTEMS_PATH):
        path = ":".join(map(str, toolchains().path))
        program = program if find_executable(command, path) else find_program(command, environ, root)
    if program is None or any(program.is_relative_to(one) for one in shown_paths):
        return None, None
    return program, find_package(program, config, environ, toolchains().shown_paths)
