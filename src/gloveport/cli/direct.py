"""Runs ``run``, ``exec`` and ``serve`` without the command line's library, if the command line is plain.

The library takes a tenth of the start of ``gloveport run``. The options are listed a second time here; a test compares
the two lists.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gloveport.cli.usage import Words, read_words

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "run": ("code=", "language=", "timeout=", "memory=", "file=", "out=", "env=", "config=", "json"),
    "exec": ("workspace=", "api=", "env=", "no-network", "config="),
    "serve": ("http", "port=", "workspace=", "toolsets=", "config="),
}
"""The options of each command, in the form of ``getopt``."""


def find_direct(words: Sequence[str]) -> Callable[[], int] | None:
    """Find the function that runs a command line and returns its exit code; None if the library has to parse it."""
    reader = _READERS.get("".join(words[:1]))
    return None if reader is None else reader(words[1:])


def _run(words: Sequence[str]) -> Callable[[], int] | None:
    command_line = read_words(words, OPTIONS["run"], short="c:l:", mixed=True)
    if command_line is None or len(command_line.rest) > 1 or not _is_once(command_line, {"file"}):
        return None
    try:
        timeout = float(command_line.options["timeout"][0]) if "timeout" in command_line.options else None
    except ValueError:
        return None
    from gloveport.cli.single_run import RunOptions, run_program_here

    options = RunOptions(
        code=command_line.last("code"),
        file=Path(command_line.rest[0]) if command_line.rest else None,
        language=command_line.last("language"),
        timeout=timeout,
        memory=command_line.last("memory"),
        environment=command_line.last("env"),
        config=_path(command_line, "config"),
        as_json="json" in command_line.options,
        files=command_line.options.get("file", ()),
        out=_path(command_line, "out"),
    )
    return lambda: run_program_here(options)


def _exec(words: Sequence[str]) -> Callable[[], int] | None:
    command_line = read_words(words, OPTIONS["exec"], mixed=False)
    if command_line is None or not command_line.rest or not _is_once(command_line, {"api"}):
        return None
    from gloveport.cli.foreground_run import ExecOptions, run_in_foreground

    options = ExecOptions(
        command=tuple(command_line.rest),
        workspace=command_line.last("workspace"),
        apis=tuple(command_line.options.get("api", ())),
        environment=command_line.last("env"),
        no_network="no-network" in command_line.options,
        config=_path(command_line, "config"),
    )
    return lambda: run_in_foreground(options)


def _serve(words: Sequence[str]) -> Callable[[], int] | None:
    command_line = read_words(words, OPTIONS["serve"], mixed=True)
    if command_line is None or command_line.rest or "port" in command_line.options or not _is_once(command_line, set()):
        return None
    from gloveport.cli.mcp_service import ServeOptions, serve_clients

    options = ServeOptions(
        http="http" in command_line.options,
        workspace=command_line.last("workspace"),
        toolsets=command_line.last("toolsets") or "",
        config=_path(command_line, "config"),
    )
    return lambda: serve_clients(options)


_READERS: Final[Mapping[str, Callable[[Sequence[str]], Callable[[], int] | None]]] = {
    "run": _run,
    "exec": _exec,
    "serve": _serve,
}


def _path(command_line: Words, name: str) -> Path | None:
    text = command_line.last(name)
    return None if text is None else Path(text)


def _is_once(command_line: Words, repeated: set[str]) -> bool:
    return all(len(values) == 1 for name, values in command_line.options.items() if name not in repeated)
