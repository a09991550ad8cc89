"""Plans the sandbox of ``gloveport exec``, and begins to start it: before there is an event loop, and what imports it.

That takes a fifth of the whole start, beside which the sandbox starts.
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
from gloveport.config import Config, find_package, find_program, find_toolchains, refuse_as_workspace
from gloveport.config.schema import ExecProgram
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.reach import Reach
from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.sandbox.launch.spawn import BegunProcess
from gloveport.sandbox.plan import Plan

_SYSTEMS_PATH: Final = "/usr/bin:/bin"


class BegunSandbox(Struct, frozen=True, kw_only=True):
    """The fork server of it, on its way.

    Attributes:
        reach: What can be reached from there.
        plans: Those of the workspace.
        plan: The one that it is started by.
    """

    reach: Reach
    plans: WorkspacePlans
    plan: Plan
    process: BegunProcess


class ForegroundPlan(Struct, frozen=True, kw_only=True):
    """What one program of a person's own is to run in.

    Attributes:
        config: What is said of the workspace, for this program alone.
        root: The workspace.
        workdir: Where in it the program begins.
        command: What the program is called here.
        program: Where it lies, where the sandbox has to be shown that.
        environ: Our environment.
        begun: Its sandbox; None where it can't be planned yet: its certificate or its packages are not there.
    """

    config: Config
    root: Path
    workdir: str
    command: str
    program: Path | None
    environ: Mapping[str, str]
    begun: BegunSandbox | None

    def prepare_plans(self, host: Host, reach: Reach) -> WorkspacePlans:
        """The plans of the workspace, for what can be reached."""
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
    """Plan it, and begin what can be begun.

    The workspace is the one that was named, or the configured one where we are in it, or else the working directory.

    Args:
        host: Where it runs.
        config: What the operator has configured.
        workspace: The directory that was named.
        command: What the program is called here.
        environ: Our environment.
        believed: The files that the configuration was read from, which the workspace may not hold.
        environment: Whose packages and programs it is to have; None for the workspace's.

    Raises:
        ConfigError: The directory can't be a workspace, or the program can't be shown in a sandbox.
        SandboxError: This host can't build its sandbox.
    """
    config, root, workdir = _with_directory(config, workspace, Path.cwd())
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
    begun = None
    if alone.workspace.environment is None and not leads_out(alone.way_out):
        reach = reach_of(alone, None)
        plans = _prepare(host, reach, alone, root, command, environ)
        plan = plans.plan()
        begun = BegunSandbox(reach=reach, plans=plans, plan=plan, process=host.backend.begin_zygote(plan))
    return ForegroundPlan(
        config=alone, root=root, workdir=workdir, command=command, program=program, environ=environ, begun=begun
    )


def _with_directory(config: Config, workspace: str | None, cwd: Path) -> tuple[Config, Path, str]:
    """The configuration with the workspace, that, and where in it the program begins."""
    here, root = cwd.resolve(), config.workspace.root
    if workspace is None and (root is None or not here.is_relative_to(root.resolve())):
        workspace = str(here)
    config = with_workspace(config, {"root": workspace, "toolsets": ""})
    if config.workspace.root is None:
        raise ConfigError("there is no workspace", hint="name one by --workspace")
    root = config.workspace.root.resolve()
    return config, config.workspace.root, str(here.relative_to(root)) if here.is_relative_to(root) else "."


def _prepare(
    host: Host, reach: Reach, config: Config, root: Path, command: str, environ: Mapping[str, str]
) -> WorkspacePlans:
    home = Path(command).name if program_settings(config, command).home else ""
    return prepare_plans(host.system, reach.way_out, config, root, environ, home)


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
