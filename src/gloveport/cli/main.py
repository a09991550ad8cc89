"""``gloveport``, the entry point: assembles the commands, and turns each error into one message and an exit code."""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from gloveport.cli import approvals, audit, config, env, logs, servers, skills
from gloveport.cli.doctor import doctor
from gloveport.cli.exec import execute
from gloveport.cli.imports import import_servers
from gloveport.cli.init import init
from gloveport.cli.run import run
from gloveport.cli.serve import serve
from gloveport.errors import Denied, GloveportError, GuestError, SandboxError
from gloveport.untrusted_text import printable_lines

_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "serve": serve,
    "run": run,
    "exec": execute,
    "doctor": doctor,
    "import": import_servers,
    "init": init,
}
_GROUPS: Final = {
    "config": config.app,
    "env": env.app,
    "audit": audit.app,
    "approvals": approvals.app,
    "servers": servers.app,
    "skills": skills.app,
}


def _print_version(asked: bool) -> None:
    if asked:
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
    """The command line; where its first word is a command, with that one alone. To make all takes 20 ms."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback()(_gloveport)
    is_known = word in {*_COMMANDS, *_GROUPS}
    for name, command in _COMMANDS.items():
        if name == word or not is_known:
            app.command(name, context_settings={"allow_interspersed_args": name != "exec"})(command)
    for name, group in _GROUPS.items():
        if name == word or not is_known:
            app.add_typer(group, name=name)
    return app


def main() -> None:
    """Run the command line. Exit code 2: usage or configuration; 3: denied; 4: no sandbox can be built here."""
    try:
        _run_command()
    except SystemExit as ended:
        _end_process(ended.code)
        raise


def _run_command() -> None:
    _fill_standard_streams()
    logs.set_up()
    try:
        _make_app("".join(sys.argv[1:2]))(prog_name="gloveport")
    except GloveportError as error:
        # A message may quote a file that somebody else wrote.
        typer.echo(f"gloveport: {printable_lines(str(error))}", err=True)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _end_process(code: object) -> None:
    """End as the interpreter would, but free no object before: the system frees all of the memory at once.

    That is a quarter of what a short run takes of the processor. Return where the interpreter has more to do: it waits
    for threads, and tells of output that nobody takes.
    """
    others = set(threading.enumerate()) - {threading.main_thread()}
    if not isinstance(code, int) or any(not thread.daemon for thread in others):
        return
    with contextlib.suppress(OSError):
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other name for it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _fill_standard_streams() -> None:
    """Open closed standard streams: the next file that is opened would get their number, and a program's output."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def _exit_code(error: GloveportError) -> int:
    if isinstance(error, SandboxError | GuestError):
        return 4
    return 3 if isinstance(error, Denied) else 2
