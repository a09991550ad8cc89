"""Finds the directories of Gloveport's state, configuration and audit log.

``environ`` gives Gloveport's own variables; XDG base directories are those of this process, as platformdirs reads them.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

from gloveport.config.schema import Config, is_canonical
from gloveport.config.toml_text import as_toml
from gloveport.errors import ConfigError

FILE_NAME = "gloveport.toml"


def state_directory(environ: Mapping[str, str]) -> Path:
    """Find the directory of what Gloveport keeps: audit log, trusted files. Not created here.

    Raises:
        ConfigError: ``GLOVEPORT_STATE`` is no absolute path, or this user has no home directory.
    """
    if given := environ.get("GLOVEPORT_STATE"):
        return _absolute("GLOVEPORT_STATE", Path(given))
    if os.geteuid() == 0:
        return Path("/var/lib/gloveport")
    return _of_user("XDG_STATE_HOME", platformdirs.user_state_path)


def config_directory() -> Path:
    """Find the directory of the operator's own configuration file.

    Raises:
        ConfigError: This user has no home directory.
    """
    if os.geteuid() == 0:
        return Path("/etc/gloveport")
    return _of_user("XDG_CONFIG_HOME", platformdirs.user_config_path)


def audit_directory(config: Config, environ: Mapping[str, str]) -> Path:
    """Find the directory of the audit log: the configured one, or ``audit`` in the state directory.

    Raises:
        ConfigError: As ``state_directory``.
    """
    return config.audit.directory or state_directory(environ) / "audit"


def skills_directory(config: Config, environ: Mapping[str, str]) -> Path:
    """Directory of the skills: the configured one, or ``skills`` in the state directory.

    Raises:
        ConfigError: As ``state_directory``.
    """
    return config.skills.directory or state_directory(environ) / "skills"


def _of_user(variable: str, find: Callable[[str], Path]) -> Path:
    try:
        return _absolute(variable, find("gloveport"))
    except RuntimeError:
        raise ConfigError("this user has no home directory", hint=f"set HOME or {variable}") from None


def _absolute(variable: str, path: Path) -> Path:
    # A relative one would lie in the working directory: inside the checkout that the agent works on.
    if not is_canonical(str(path)):
        raise ConfigError(
            f"{variable} leads to {as_toml(str(path))}, which is no absolute path free of '.' and '..'",
            hint=f"set {variable} to an absolute path, or unset it",
        )
    return path
