"""The command line: all commands, each imported when it is called."""

import importlib
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from gloveport.cli.garbage import collect_from_now_on

_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "serve": ("gloveport.cli.serve", "serve"),
    "run": ("gloveport.cli.run", "run"),
    "exec": ("gloveport.cli.exec", "execute"),
    "doctor": ("gloveport.cli.doctor", "doctor"),
    "import": ("gloveport.cli.imports", "import_servers"),
    "init": ("gloveport.cli.init", "init"),
}
"""Command → the module that has it, and the function's name there."""

_GROUPS: Final[Mapping[str, str]] = {
    "config": "gloveport.cli.config",
    "env": "gloveport.cli.env",
    "audit": "gloveport.cli.audit",
    "approvals": "gloveport.cli.approvals",
    "ports": "gloveport.cli.ports",
    "servers": "gloveport.cli.servers",
    "skills": "gloveport.cli.skills",
}
"""Command with subcommands → the module that has them, as ``app``."""

_IMPORT_MORE: Final = {"serve", "run", "exec"}
"""Commands that call ``collect_from_now_on`` themselves, when all is imported."""


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"gloveport {version('gloveport')}")
        raise typer.Exit


def _gloveport(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run an agent's programs in a sandbox that the operating system enforces."""


def _make_app(word: str) -> typer.Typer:
    """Make the command line; if its first word is a command, with that command alone: to make all takes 50 ms."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_gloveport)
    is_known = word in {*_COMMANDS, *_GROUPS}
    for name, (module, function) in _COMMANDS.items():
        if name == word or not is_known:
            command = getattr(importlib.import_module(module), function)
            app.command(name, context_settings={"allow_interspersed_args": name != "exec"})(command)
    for name, module in _GROUPS.items():
        if name == word or not is_known:
            app.add_typer(importlib.import_module(module).app, name=name)
    return app


def run_command() -> None:
    """Run the command that this process was started with. Raises UsageError or GloveportError if it fails."""
    word = "".join(sys.argv[1:2])
    command = _make_app(word)
    if word not in _IMPORT_MORE:
        collect_from_now_on()
    command(prog_name="gloveport")
