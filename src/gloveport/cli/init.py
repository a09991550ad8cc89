"""``gloveport init``: writes sections for well-known agents, registries and services into the configuration."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gloveport.cli.config_loading import working_directory
from gloveport.cli.options import ConfigOption
from gloveport.cli.usage import UsageError


def init(
    presets: Annotated[
        list[str] | None,
        typer.Option("--preset", metavar="NAME", help="What to add; may be repeated. Without it, a list of all."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Add the sections of presets to your configuration file, and print them. What is there already stays as it is."""
    from gloveport.config.loading.edit import Secrets, read_text_of, write
    from gloveport.config.preset_tables import preset_names, read_preset
    from gloveport.config.sources.selection import sources

    if not presets:
        raise UsageError(f"name a --preset; there are: {', '.join(preset_names())}")
    cwd = working_directory()
    found = sources(config, cwd=cwd, environ=os.environ).operator
    file = Path(os.path.normpath(cwd / found))
    content, text = read_text_of(file)
    tables = [table for name in dict.fromkeys(presets) for table in read_preset(name).strip().split("\n\n")]
    added = _missing_tables(file, text, tables)
    if not added:
        typer.echo(f"{file} has all of it")
        return
    whole = "\n\n".join([*([text.rstrip("\n")] if text.strip() else []), *added]) + "\n"
    write(file, content, whole, Secrets(values={}), environ=os.environ)
    typer.echo("\n\n".join(added))
    written = f"gloveport: written to {file}"
    if any("secret = " in table for table in added):
        written += "; `gloveport doctor` tells whether each secret can be had"
    if any(table.startswith("[environments.") for table in added):
        written += "; `gloveport env build` builds the environment"
    typer.echo(written, err=True)


def _missing_tables(file: Path, text: str, tables: list[str]) -> list[str]:
    """List the tables that the file does not have."""
    from gloveport.config.sources.layers import parse_toml

    there: Any = parse_toml(file, text)
    return [table for table in dict.fromkeys(tables) if not _has_table(there, table)]


def _has_table(there: Any, table: str) -> bool:  # noqa: ANN401 - what TOML holds
    heading = re.match(r"\[([^\]]+)\]", table)
    for key in heading.group(1).split(".") if heading else ():
        if not isinstance(there, dict) or key not in there:
            return False
        there = there[key]
    return True
