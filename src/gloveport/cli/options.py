"""What commands share: options, the confirmation by a person, and the audit log of what is decided."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.cli.config_loading import load_config
from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.model.json_value import JsonValue


ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="PATH", help="Configuration file; it then counts alone.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


def confirm(question: str) -> None:
    """Require a person's confirmation: an agent that was given the command line has no terminal to give one."""
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to ask", hint="read what is printed, then write --yes")
    typer.confirm(question, abort=True)


def escape_unencodable() -> None:
    """Have standard output escape characters that the terminal lacks: else one ends the output before the next line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def recording(config_path: Path | None) -> "Iterator[Callable[[str, Mapping[str, JsonValue]], None]]":
    """Open the audit log for the owner's decisions; yield a function that writes one. If that fails, decide nothing.

    Raises:
        AuditError: The log can't be written.
    """
    from gloveport.audit.log import AuditLog
    from gloveport.audit.retention import RetentionBounds
    from gloveport.config import audit_directory

    config = load_config(config_path)
    bounds = RetentionBounds(record_bytes=config.audit.max_record_bytes, log_bytes=config.audit.max_bytes)
    with AuditLog.open(
        audit_directory(config, os.environ), max_file_bytes=config.audit.max_file_bytes, bounds=bounds
    ) as log:

        def record(kind: str, fields: "Mapping[str, JsonValue]") -> None:
            log.append(kind, {**fields, "by": f"cli (uid {os.getuid()})"})

        yield record
