"""Loads the configuration for a command."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.config import Config, Loaded


def load_config(given: Path | None) -> "Config":
    """The configuration that counts here.

    Raises:
        ConfigError: It has faults, all of which are named.
    """
    return load_with_origins(given).config


def load_with_origins(given: Path | None) -> "Loaded":
    """The same, with the files it came from and the origin of every value."""
    from gloveport.config import load

    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists", hint="change to one that does") from None
    return load(given, cwd=cwd, environ=os.environ)
