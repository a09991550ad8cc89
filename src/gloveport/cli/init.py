"""``gloveport init``: writes sections for well-known agents, registries and services into the configuration."""

import os
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from gloveport.cli.options import ConfigOption
from gloveport.errors import ConfigError


def init(
    presets: Annotated[list[str], typer.Option("--preset", metavar="NAME", help="What to add; may be said often.")],
    config: ConfigOption = None,
) -> None:
    """Add the sections of presets to your configuration file, and print them. What is there already stays as it is."""
    from gloveport.config.edit import Secrets, read_text_of, write
    from gloveport.config.sources import sources

    found = sources(config, cwd=Path.cwd(), environ=os.environ).operator
    file = Path(os.path.normpath(Path.cwd() / found))
    content, text = read_text_of(file)
    tables = [table for name in dict.fromkeys(presets) for table in _read_preset(name)]
    added = _missing_tables(file, text, tables)
    if not added:
        typer.echo(f"{file} has all of it")
        return
    whole = "\n\n".join([*([text.rstrip("\n")] if text.strip() else []), *added]) + "\n"
    write(file, content, whole, Secrets(values={}), environ=os.environ)
    typer.echo("\n\n".join(added))
    typer.echo(f"gloveport: written to {file}; `gloveport doctor` tells whether each secret can be had", err=True)


def preset_names() -> list[str]:
    """What ``--preset`` may name."""
    return sorted(
        one.name.removesuffix(".toml") for one in resources.files("gloveport.cli").joinpath("presets").iterdir()
    )


def _read_preset(name: str) -> list[str]:
    """The tables of a preset, as text."""
    if name not in preset_names():
        raise ConfigError(f"there is no preset {name[:64]!r}", hint=f"there are: {', '.join(preset_names())}")
    text = resources.files("gloveport.cli").joinpath("presets", f"{name}.toml").read_text("utf-8")
    return text.strip().split("\n\n")


def _missing_tables(file: Path, text: str, tables: list[str]) -> list[str]:
    """Those that the file does not have."""
    from gloveport.config.layers import parse_toml

    there: Any = parse_toml(file, text)
    return [table for table in dict.fromkeys(tables) if not _has_table(there, table)]


def _has_table(there: Any, table: str) -> bool:  # noqa: ANN401 - what TOML holds
    heading = re.match(r"\[([^\]]+)\]", table)
    for key in heading.group(1).split(".") if heading else ():
        if not isinstance(there, dict) or key not in there:
            return False
        there = there[key]
    return True
