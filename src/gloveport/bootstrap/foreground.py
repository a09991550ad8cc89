"""Prepares ``gloveport exec``: the directory, the configuration and the sandboxes of a person's own program."""

import contextlib
import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from gloveport.bootstrap import app
from gloveport.bootstrap.build import Interpreters
from gloveport.bootstrap.workspace_options import with_workspace
from gloveport.bootstrap.workspace_sandboxes import LoneProgram, open_sandboxes
from gloveport.config import Config, find_package, find_program, find_toolchains, refuse_as_workspace
from gloveport.config.schema import ExecProgram, PoolSettings
from gloveport.errors import ConfigError
from gloveport.model import Mount
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

_SYSTEMS_PATH: Final = "/usr/bin:/bin"


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
    config: Config,
    command: str,
    environ: Mapping[str, str],
    believed: Sequence[Path] = (),
    interpreters: Interpreters | None = None,
    environment: str | None = None,
) -> AsyncIterator[tuple[WorkspaceSandboxes, str]]:
    """The sandboxes of the workspace for one program, and what that is called in them.

    Args:
        config: As ``with_directory`` gives it.
        command: What the program is called here.
        environ: Our environment.
        believed: The files that the configuration was read from, which the workspace may not hold.
        interpreters: Those of this host, where they were asked before.
        environment: One that it is to have in the place of what the configuration says.

    Raises:
        ConfigError: It is no directory that can be a workspace, or the program can't be shown.
        SandboxError: This host can't build its sandboxes.
        AuditError: The audit log can't be written.
    """
    root = config.workspace.root
    if root is None:
        raise ConfigError("there is no workspace", hint="name one by --workspace")
    refuse_as_workspace(root, config, environ, believed)
    # One program, which calls no tools, and for which nothing waits.
    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0), "servers": {}})
    settings = program_settings(config, command)
    update: dict[str, object] = {"limits": config.exec.limits}
    async with app.assemble(alone, environ, interpreters=interpreters) as engine:
        shown = [Path(mount.source) for mount in (*engine.system.binds, *config.policy.mounts)]
        program, package = _find_owners(config, command, environ, [root, *shown])
        if environment is not None:
            update["environment"] = environment
        if package is not None:
            update["toolchains"] = (*config.workspace.toolchains, package)
        alone = alone.model_copy(update={"workspace": config.workspace.model_copy(update=update)})
        lone = LoneProgram(home=Path(command).name if settings.home else "")
        async with open_sandboxes(engine, alone, root, environ, math.inf, lone) as sandboxes:
            mounts = sandboxes.prefetch.server.plan.binds
            yield sandboxes, command if program is None else _inside(program, mounts)


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
    toolchains = find_toolchains(config, environ)
    if shutil.which(command, path=":".join([*map(str, toolchains.path), _SYSTEMS_PATH])):
        program = Path(command).resolve() if command.startswith("/") else None
    else:
        program = find_program(command, environ)
    if program is None or any(program.is_relative_to(one) for one in shown):
        return None, None
    return program, find_package(program, config, environ, toolchains.shown)


def _inside(program: Path, mounts: Sequence[Mount]) -> str:
    """Where the sandbox has a program of ours."""
    for mount in mounts:
        if program.is_relative_to(mount.source):
            return str(PurePosixPath(mount.target, program.relative_to(mount.source)))
    return str(program)
