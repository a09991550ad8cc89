"""Loads the configuration for a command."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.config import Config, Loaded


def load_config(config_path: Path | None) -> "Config":
    """Load the effective configuration.

    Raises:
        ConfigError: The configuration has faults, and the error names all of them.
    """
    return load_with_origins(config_path).config


def load_with_origins(config_path: Path | None) -> "Loaded":
    """Load the effective configuration, with its files and the origin of every value."""
    from gloveport.config import load

    return load(config_path, cwd=working_directory(), environ=os.environ)


def working_directory() -> Path:
    """Find the working directory. Raises ConfigError if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists", hint="change to one that does") from None
