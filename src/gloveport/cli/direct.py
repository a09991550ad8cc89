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
    given = read_words(words, OPTIONS["run"], short="c:l:", mixed=True)
    if given is None or len(given.rest) > 1 or not _is_once(given, {"file"}):
        return None
    try:
        timeout = float(given.options["timeout"][0]) if "timeout" in given.options else None
    except ValueError:
        return None
    from gloveport.cli.single_run import RunOptions, run_program_here

    options = RunOptions(
        code=given.last("code"),
        file=Path(given.rest[0]) if given.rest else None,
        language=given.last("language"),
        timeout=timeout,
        memory=given.last("memory"),
        environment=given.last("env"),
        config=_path(given, "config"),
        as_json="json" in given.options,
        files=given.options.get("file", ()),
        out=_path(given, "out"),
    )
    return lambda: run_program_here(options)


def _exec(words: Sequence[str]) -> Callable[[], int] | None:
    given = read_words(words, OPTIONS["exec"], mixed=False)
    if given is None or not given.rest or not _is_once(given, {"api"}):
        return None
    from gloveport.cli.foreground_run import ExecOptions, run_in_foreground

    options = ExecOptions(
        command=tuple(given.rest),
        workspace=given.last("workspace"),
        apis=tuple(given.options.get("api", ())),
        environment=given.last("env"),
        no_network="no-network" in given.options,
        config=_path(given, "config"),
    )
    return lambda: run_in_foreground(options)


def _serve(words: Sequence[str]) -> Callable[[], int] | None:
    given = read_words(words, OPTIONS["serve"], mixed=True)
    if given is None or given.rest or "port" in given.options or not _is_once(given, set()):
        return None
    from gloveport.cli.mcp_service import ServeOptions, serve_clients

    options = ServeOptions(
        http="http" in given.options,
        workspace=given.last("workspace"),
        toolsets=given.last("toolsets") or "",
        config=_path(given, "config"),
    )
    return lambda: serve_clients(options)


_READERS: Final[Mapping[str, Callable[[Sequence[str]], Callable[[], int] | None]]] = {
    "run": _run,
    "exec": _exec,
    "serve": _serve,
}


def _path(given: Words, name: str) -> Path | None:
    text = given.last(name)
    return None if text is None else Path(text)


def _is_once(given: Words, repeated: set[str]) -> bool:
    return all(len(values) == 1 for name, values in given.options.items() if name not in repeated)
