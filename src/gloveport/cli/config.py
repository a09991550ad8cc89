"""``gloveport config``: show the configuration and where it comes from, check it, and trust a project's file."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gloveport.cli.config_loading import load_with_origins, working_directory
from gloveport.cli.options import AsJson, ConfigOption

if TYPE_CHECKING:
    from gloveport.config import Loaded

app = typer.Typer(no_args_is_help=True, help="Show, check and trust configuration files.")


@app.command()
def show(
    config: ConfigOption = None,
    as_json: AsJson = False,
) -> None:
    """Print every value and where it comes from."""
    settings = load_with_origins(config)
    if as_json:
        files = [str(file) for file in settings.files]
        values = settings.config.model_dump(mode="json")
        typer.echo(json.dumps({"files": files, "values": values, "origins": dict(settings.origins)}, indent=2))
    else:
        typer.echo("\n".join(_as_toml(settings)))


@app.command()
def check(config: ConfigOption = None) -> None:
    """Read the configuration and name every fault. The exit code is 0 when there is none, else 2."""
    from gloveport.config.toml_text import printable

    settings = load_with_origins(config)
    if not settings.files:
        typer.echo("no configuration file: every value is its default")
    for file in settings.files:
        typer.echo(f"valid: {printable(str(file))}")


@app.command()
def trust(
    path: Annotated[Path, typer.Argument(help="The project's directory, or its gloveport.toml.")] = Path(),
) -> None:
    """Let a project's gloveport.toml count with the content it has now, which is printed."""
    from gloveport.config import trust as trust_file
    from gloveport.config.toml_text import printable

    trusted = trust_file(working_directory() / path, environ=os.environ)
    # Exactly the bytes that are trusted now: the file may have changed since it was reviewed in an editor.
    for line in trusted.text.split("\n"):
        typer.echo(printable(line.expandtabs(), limit=sys.maxsize))
    typer.echo(f"trusted: {printable(str(trusted.path))} (sha256 {trusted.sha256})")


def _as_toml(settings: "Loaded") -> Iterator[str]:
    """Write the configuration as one TOML file whose comments are the origins."""
    from gloveport.config import leaves
    from gloveport.config.toml_text import spell_key, toml

    last_table = ""
    for key, value in leaves(settings.config):
        table, name = spell_key(key[:-1]), spell_key(key[-1:])
        if table != last_table:
            yield from ([""] if last_table else [])
            yield f"[{table}]"
            last_table = table
        line = f"# {name} is unset" if value is None else f"{name} = {toml(value)}"
        yield f"{line:<40}  # {settings.find_origin(key)}"
