"""``gloveport import``: take over the servers that other clients have configured."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gloveport.cli.config_loading import working_directory
from gloveport.cli.options import ConfigOption
from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.import_config.client_files import ClientFile
    from gloveport.import_config.file_reader import ClientEntry
    from gloveport.import_config.import_plan import Step

_SIGNS = {"added": "+", "changed": "~", "same": "=", "skipped": "-"}


def import_servers(
    source: Annotated[
        str | None, typer.Option("--from", metavar="CLIENT|FILE", help="Only from this client, or from this file.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this server; may be repeated.")] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Also read the files of the project in the working directory.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write it.")] = False,
    config: ConfigOption = None,
) -> None:
    """Take over the MCP servers of other clients, and show what would change; without --yes nothing is written.

    Clients are claude-desktop, claude-code, cursor, vscode, codex, gemini, windsurf and opencode. Literal secrets move
    into files beside the configuration that only you can read.
    """
    from gloveport.config.toml_text import printable
    from gloveport.import_config.apply import apply, target
    from gloveport.import_config.import_plan import plan

    cwd, home = working_directory(), _home_directory()
    places = _places(source, cwd, home, with_projects=project)
    entries = list(_read(places, is_named=source is not None))
    found = target(config, cwd=cwd, home=home, environ=os.environ)
    steps = plan(entries, found.here, only=only or ())
    if missing := {*(only or ())} - {name for step in steps for name in (step.name, step.entry.name)}:
        raise ConfigError(f"nothing here is called {printable(', '.join(sorted(missing)))}", hint="correct --only")
    typer.echo(f"configuration: {printable(str(found.file))}" + ("" if found.content is not None else " (a new file)"))
    for step in steps:
        for line in _lines(step):
            typer.echo(line)
    typer.echo(_summary(steps))
    written = apply(found, steps, environ=os.environ) if yes else None
    if written is not None:
        typer.echo(f"written: {printable(str(written.file))}")
        if written.backup is not None:
            typer.echo(f"what was there before: {printable(str(written.backup))}")
        if any(step.draft is not None and step.draft.secrets for step in steps):
            typer.echo("the clients' own files still hold the secrets: remove the servers there")
    elif any(step.outcome in {"added", "changed"} for step in steps):
        typer.echo(f"nothing was written to {printable(str(found.file))}: say --yes as well to do so")


def _home_directory() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError("this user has no home directory", hint="set HOME") from None


def _places(source: str | None, cwd: Path, home: Path, *, with_projects: bool) -> "list[ClientFile]":
    from gloveport.import_config.client_files import CLIENTS, named_place, project_places, user_places

    if source is not None and source not in CLIENTS:
        return [named_place(cwd / source)]
    clients = CLIENTS if source is None else (source,)
    projects = [place for client in clients for place in project_places(client, cwd=cwd)] if with_projects else []
    users = [place for client in clients for place in user_places(client, home=home, environ=os.environ)]
    return [*users, *projects]  # of two servers of one name the first counts: a checkout must not replace the user's


def _read(places: "Sequence[ClientFile]", *, is_named: bool) -> "Iterator[ClientEntry]":
    """Yield the entries of the files, and print what was found. A fault is an error only in a file that was named."""
    from gloveport.config.toml_text import printable
    from gloveport.import_config.file_reader import read_entries

    for place in places:
        name = printable(str(place.path))
        try:
            entries = read_entries(place)
        except ConfigError as error:
            if is_named and len(places) == 1:
                raise
            typer.echo(f"{place.client}: {error.args[0]}; hint: {error.hint}")
            continue
        if entries is None and place.client == "file":
            raise ConfigError(f"{name} does not exist", hint="name a client or a file; see gloveport import --help")
        typer.echo(f"{place.client}: {name}: " + ("no such file" if entries is None else f"{len(entries)} servers"))
        yield from entries or ()


def _lines(step: "Step") -> Iterator[str]:
    """Describe the import of one entry: the whole command, and no secret."""
    from gloveport.config.toml_text import printable, toml

    reason = f": {step.reason}" if step.reason else ""
    yield f"{_SIGNS[step.outcome]} {printable(step.name, limit=80)} ({step.outcome}, {step.entry.place.client}){reason}"
    if step.draft is None:
        return
    for key in step.removed:
        yield f"    {key}: removed"
    for key in step.keys:
        yield f"    {key} = {printable(toml(_mask_value(key, step.draft.table[key])), limit=sys.maxsize)}"
    for file in step.draft.secrets if step.outcome != "same" else ():
        yield f"    secret: moves to {printable(str(step.draft.directory / file))}"
    for note in step.draft.notes:
        yield f"    note: {printable(note, limit=400)}"


def _mask_value(key: str, value: object) -> object:
    from gloveport.import_config.review import HIDDEN, reviewed_command
    from gloveport.import_config.secrets import is_harmless_address, is_secret_name, is_switch

    match key, value:
        case "command", [*parts]:
            return reviewed_command([str(part) for part in parts])
        case "env", dict():
            return {
                name: HIDDEN if is_secret_name(name) and not is_switch(str(text)) else text
                for name, text in value.items()
            }
        case "url", str() if not is_harmless_address(value):
            scheme, _, rest = value.partition("://")
            return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/{HIDDEN}"
        case _:
            return value


def _summary(steps: "Sequence[Step]") -> str:
    counts = Counter(step.outcome for step in steps)
    if not steps:
        return "no servers were found"
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("added", "changed", "same", "skipped"))
