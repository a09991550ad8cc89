"""The directory and the configuration under which a person's own program runs, and its sandboxes."""

import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from gloveport.bootstrap import app
from gloveport.bootstrap.workspace import with_workspace
from gloveport.bootstrap.workspace_sandboxes import open_sandboxes
from gloveport.config import Config, refuse_as_workspace
from gloveport.config.schema import PoolSettings
from gloveport.errors import ConfigError
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes


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
    config: Config, environ: Mapping[str, str], believed: Sequence[Path] = ()
) -> AsyncIterator[WorkspaceSandboxes]:
    """The sandboxes of the workspace for one program.

    Args:
        config: As ``with_directory`` gives it.
        environ: Our environment.
        believed: The files that the configuration was read from, which the workspace may not hold.

    Raises:
        ConfigError: It is no directory that can be a workspace.
        SandboxError: This host can't build its sandboxes.
        AuditError: The audit log can't be written.
    """
    root = config.workspace.root
    if root is None:
        raise ConfigError("there is no workspace", hint="name one by --workspace")
    refuse_as_workspace(root, config, environ, believed)
    workspace = config.workspace.model_copy(update={"limits": config.exec.limits})
    # One program, which calls no tools, and for which nothing waits.
    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0), "servers": {}, "workspace": workspace})
    async with (
        app.assemble(alone, environ) as engine,
        open_sandboxes(engine, alone, root, environ, math.inf, ahead=0) as sandboxes,
    ):
        yield sandboxes
