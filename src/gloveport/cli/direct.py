"""Runs ``run``, ``exec`` and ``serve`` without the command line's library, if the command line is plain.

The library takes a tenth of the start of ``gloveport run``. The options are listed a second time here; a test compares
the two lists.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gloveport.cli.run_options import LONG_OPTIONS, read_run_options
from gloveport.cli.usage import read_words

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "run": LONG_OPTIONS,
    "exec": ("workspace=", "api=", "env=", "no-network", "config="),
    "serve": ("http", "port=", "workspace=", "toolsets=", "config="),
}
"""The options of each command, in the form of ``getopt``."""


def find_direct(words: Sequence[str]) -> Callable[[], int] | None:
    """Find the function that runs a command line and returns its exit code; None if the library has to parse it."""
    reader = _READERS.get("".join(words[:1]))
    return None if reader is None else reader(words[1:])


def _run(words: Sequence[str]) -> Callable[[], int] | None:
    options = read_run_options(words)
    if options is None:
        return None
    from gloveport.cli.single_run import run_program_here

    return lambda: run_program_here(options)


def _exec(words: Sequence[str]) -> Callable[[], int] | None:
    command_line = read_words(words, OPTIONS["exec"], mixed=False)
    if command_line is None or not command_line.rest or not command_line.is_once(except_for="api"):
        return None
    from gloveport.cli.foreground_run import ExecOptions, run_in_foreground

    options = ExecOptions(
        command=tuple(command_line.rest),
        workspace=command_line.last("workspace"),
        apis=tuple(command_line.options.get("api", ())),
        environment=command_line.last("env"),
        no_network="no-network" in command_line.options,
        config=command_line.path("config"),
    )
    return lambda: run_in_foreground(options)


def _serve(words: Sequence[str]) -> Callable[[], int] | None:
    command_line = read_words(words, OPTIONS["serve"], mixed=True)
    if command_line is None or command_line.rest or "port" in command_line.options or not command_line.is_once():
        return None
    from gloveport.cli.mcp_service import ServeOptions, serve_clients

    options = ServeOptions(
        http="http" in command_line.options,
        workspace=command_line.last("workspace"),
        toolsets=command_line.last("toolsets") or "",
        config=command_line.path("config"),
    )
    return lambda: serve_clients(options)


_READERS: Final[Mapping[str, Callable[[Sequence[str]], Callable[[], int] | None]]] = {
    "run": _run,
    "exec": _exec,
    "serve": _serve,
}
