"""Applies the command line's options for the workspace to the configuration."""

from collections.abc import Mapping
from pathlib import Path

from gloveport.config import Config
from gloveport.config.schema import Workspace
from gloveport.errors import ConfigError
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.real_paths import real


def with_workspace(config: Config, options: Mapping[str, object]) -> Config:
    """The configuration with the command line's ``root`` and ``toolsets`` of the workspace, where given.

    Raises:
        ConfigError: There is no such directory, it can't be a workspace, there is no such toolset, or there is no
            workspace for its tools.
    """
    root, toolsets = options["root"], [name.strip() for name in str(options["toolsets"]).split(",") if name.strip()]
    changes: dict[str, object] = {}
    if root is not None:
        changes["root"] = _real(str(root))
    if options["toolsets"]:
        changes["toolsets"] = _read_toolsets(toolsets)
        if "workspace" in toolsets and root is None and config.workspace.root is None:
            hint = "add --workspace DIR, or set workspace.root in the configuration"
            raise ConfigError("--toolsets workspace: no workspace is named", hint=hint)
    return config.model_copy(update={"workspace": config.workspace.model_copy(update=changes)})


def _read_toolsets(names: list[str]) -> tuple[str, ...]:
    try:
        return read_value(Workspace, {"toolsets": names}).toolsets
    except WrongShapeError as error:
        problem = "Input should be 'code', 'workspace' or 'skills'" if names else "It names none"
        raise ConfigError(f"--toolsets: {problem}", hint="they are: code, workspace, skills") from error


def _real(root: str) -> Path:
    if not root:  # Path("") is the working directory, but this was more likely an unset shell variable
        raise ConfigError('--workspace "": names no directory', hint='for the working directory write "."')
    try:
        return real(Path(root), strict=True)
    except OSError as error:
        raise ConfigError(f"--workspace {root}: {error.strerror}", hint="name a directory that exists") from error
