"""Options and helpers that commands share: loading the configuration, and the audit log of what they decide."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from gloveport.config import Config, Loaded

ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="PATH", help="Configuration file; it then counts alone.")
]


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


@contextlib.contextmanager
def recording(given: Path | None) -> "Iterator[Callable[[str, Mapping[str, JsonValue]], None]]":
    """A way to write down what the owner decides by a command. Where nothing can be written, nothing is decided.

    Raises:
        AuditError: It can't be written down.
    """
    from gloveport.audit.log import AuditLog
    from gloveport.audit.retention import RetentionBounds
    from gloveport.config import audit_directory

    config = load_config(given)
    bounds = RetentionBounds(record_bytes=config.audit.max_record_bytes, log_bytes=config.audit.max_bytes)
    with AuditLog.open(
        audit_directory(config, os.environ), max_file_bytes=config.audit.max_file_bytes, bounds=bounds
    ) as log:

        def record(kind: str, fields: "Mapping[str, JsonValue]") -> None:
            log.append(kind, {**fields, "by": f"cli (uid {os.getuid()})"})

        yield record
