"""What the commands have in common: the configuration they run under."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.config import Config, Loaded

ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="PATH", help="Configuration file; it then counts alone.")
]


def configured(given: Path | None) -> "Config":
    """The configuration that counts here.

    Raises:
        ConfigError: It has faults, all of which are named.
    """
    return loaded(given).config


def loaded(given: Path | None) -> "Loaded":
    """The same, with the files it came from and the origin of every value."""
    from gloveport.config import load

    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists", hint="change to one that does") from None
    return load(given, cwd=cwd, environ=os.environ)
