"""What the command line says of the workspace."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from gloveport.config import Config
from gloveport.errors import ConfigError


def with_workspace(config: Config, told: Mapping[str, object]) -> Config:
    """The configuration with what the command line says of the workspace: ``root`` and ``toolsets``, where it does.

    Raises:
        ConfigError: There is no such directory, it can't be a workspace, or there is no such toolset.
    """
    root, toolsets = told["root"], [name.strip() for name in str(told["toolsets"]).split(",") if name.strip()]
    said: dict[str, object] = {}
    if root is not None:
        said["root"] = _real(str(root))
    if told["toolsets"]:
        said["toolsets"] = tuple(toolsets)
    try:
        settings = type(config.workspace).model_validate({**dict(config.workspace), **said})
    except ValidationError as error:
        raise ConfigError(
            f"--toolsets: {error.errors()[0]['msg']}", hint="they are: code, workspace, skills"
        ) from error
    return config.model_copy(update={"workspace": settings})


def _real(root: str) -> Path:
    if not root:  # to a Path it is the working directory, and was more likely an unset variable of a shell
        raise ConfigError('--workspace "": names no directory', hint='for the working directory write "."')
    try:
        return Path(root).resolve(strict=True)
    except OSError as error:
        raise ConfigError(f"--workspace {root}: {error.strerror}", hint="name a directory that exists") from error
