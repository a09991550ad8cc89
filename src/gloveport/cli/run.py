"""``gloveport run``: one program in the sandbox, as if it ran here."""

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGPIPE
from typing import TYPE_CHECKING, Annotated

import typer

from gloveport.cli.artifact_files import read_inputs
from gloveport.cli.options import ConfigOption, load_config

if TYPE_CHECKING:
    from gloveport.cli.printer import Printer
    from gloveport.config import Config
    from gloveport.engine.execution import Engine
    from gloveport.model import Language, Limits, Request, Result

_SUFFIXES: "dict[str, Language]" = {
    ".py": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".js": "javascript",
    ".mjs": "javascript",
    ".sh": "shell",
    ".bash": "shell",
}
_EXIT_CODES = {"ok": 0, "error": 1, "killed": 1, "denied": 3, "timeout": 124, "cancelled": 130}


def run(  # noqa: PLR0913, PLR0917 - they are the options
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The program; - is standard input.")] = None,
    code: Annotated[str | None, typer.Option("-c", "--code", metavar="CODE", help="The program itself.")] = None,
    language: Annotated[
        str | None, typer.Option("-l", "--language", help="Default: by FILE's name, else python.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Wall-clock limit.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory limit, such as 256MiB.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH[=NAME]", help="A file for the program's directory.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to put what it leaves in /out.")] = None,
    env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment whose packages it can import.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON when it is there.")] = False,
    config: ConfigOption = None,
) -> None:
    """Run one program in the sandbox and print its output as it comes, then its value.

    The exit code is 0; 1: the program failed; 2: usage or configuration; 3: denied; 4: no sandbox can be built here;
    124: timeout; 130: Ctrl-C.
    """
    from gloveport.event_loop import run as run_loop

    loaded = load_config(config)
    if file is None and code is None and sys.stdin.isatty():
        raise typer.BadParameter("name a FILE, give -c CODE, or - to read standard input")
    if file is not None and code is not None:
        raise typer.BadParameter("give a FILE or -c CODE, not both")
    source = _read(file, loaded.policy.limits.code_bytes) if code is None else code
    request = _request(language or _language_of(file), source, timeout, memory, env)
    if files:
        inputs = read_inputs(files, loaded.policy.limits.input_bytes)
        request = request.model_copy(update={"files": inputs})
    _tell_lowered(request, loaded.policy.limits)
    raise typer.Exit(run_loop(_execute, loaded, request, as_json, out))


def _language_of(file: Path | None) -> str:
    """By the file's name; python for text that has none."""
    if file is None or not file.suffix:
        return "python"
    if file.suffix not in _SUFFIXES:
        raise typer.BadParameter(
            f"{file.name!r} does not tell its language: give --language, or use {', '.join(_SUFFIXES)}"
        )
    return _SUFFIXES[file.suffix]


def _read(file: Path | None, code_bytes: int) -> str:
    """The program's text; of one that is too large no more than shows that it is."""
    name = "standard input" if file is None or str(file) == "-" else str(file)
    try:
        if name == "standard input":
            data = sys.stdin.buffer.read(code_bytes + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(code_bytes + 1)
        return data.decode("utf-8-sig", "ignore" if len(data) > code_bytes else "strict")
    except OSError as error:
        raise typer.BadParameter(f"{name} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is no UTF-8 text: byte {error.start} is wrong") from error


def _request(
    language: str, source: str, timeout: float | None, memory: str | None, environment: str | None
) -> "Request":
    from pydantic import ValidationError

    from gloveport.model import Request

    limits = {"wall_seconds": timeout, "memory_bytes": memory}
    try:
        asked = {"language": language, "code": source, "limits": limits, "environment": environment}
        return Request.model_validate(asked)
    except ValidationError as error:
        option = {
            "language": "--language",
            "code": "the program",
            "environment": "--env",
            "wall_seconds": "--timeout",
            "memory_bytes": "--memory",
        }
        faults = (f"{option[str(fault['loc'][-1])]}: {fault['msg'].removeprefix('Input ')}" for fault in error.errors())
        raise typer.BadParameter("; ".join(faults)) from error


def _tell_lowered(request: "Request", ceiling: "Limits") -> None:
    """Say which limits that were asked for are more than the owner's policy gives."""
    from gloveport.model import MIB

    if (seconds := request.limits.wall_seconds) is not None and seconds > ceiling.wall_seconds:
        given = f"{ceiling.wall_seconds:g} s, as policy.limits.wall_seconds says"
        typer.echo(f"gloveport: --timeout {seconds:g} is lowered to {given}", err=True)
    if (size := request.limits.memory_bytes) is not None and size > ceiling.memory_bytes:
        given = f"{ceiling.memory_bytes / MIB:g} MiB, as policy.limits.memory_bytes says"
        typer.echo(f"gloveport: --memory {size / MIB:.15g} MiB is lowered to {given}", err=True)


async def _execute(config: "Config", request: "Request", as_json: bool, out: Path | None) -> int:
    """Run, print, put what it has left into ``out``, and tell the exit code."""
    import anyio

    from gloveport.bootstrap import app
    from gloveport.cli.backend import choose_connect
    from gloveport.cli.printer import STDERR, STDOUT, printing
    from gloveport.config.schema import PoolSettings
    from gloveport.engine.run_context import RunContext
    from gloveport.errors import GloveportError
    from gloveport.server.process.signals import on_end_signal

    ended: Result | GloveportError | None = None
    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})  # there is one program, and it is here
    async with app.assemble(alone, os.environ, choose_connect(config)) as engine:
        with anyio.CancelScope() as scope, on_end_signal(scope.cancel) as came:
            async with printing(scope) as printer:

                def pass_on(stream: str, text: str) -> None:
                    printer.put(STDOUT if stream == "stdout" else STDERR, text)

                context = RunContext()
                context = replace(context, asker=engine.desk.asker(_teller(engine, context.run_id, printer)))
                caller = f"cli (uid {os.getuid()})"
                try:
                    ended = await engine.execute(
                        request,
                        caller=caller,
                        on_output=None if as_json else pass_on,
                        context=context,
                    )
                except GloveportError as error:
                    ended = error
                else:
                    _show(printer, ended, as_json)
                    _put_out(printer, engine, caller, ended, out)
    if isinstance(ended, GloveportError):
        raise ended
    if came:
        return 128 + came[0]
    if printer.failure is not None:
        return _unwritable(printer.failure)
    return _EXIT_CODES[ended.status] if ended else 1


def _teller(engine: "Engine", run_id: str, printer: "Printer") -> Callable[[], None]:
    """Tells, once each, what the program's run waits for a person to say."""
    from gloveport.cli.printer import STDERR

    told: set[str] = set()

    def tell() -> None:
        for question in engine.desk.pending(run_id):
            if question.id not in told:
                told.add(question.id)
                printer.put_line(STDERR, f"gloveport: {question.text}")
                printer.put_line(STDERR, f"hint: gloveport approvals approve {question.id}")

    return tell


def _show(printer: "Printer", result: "Result", as_json: bool) -> None:
    from gloveport.cli.printer import STDERR, STDOUT
    from gloveport.server.rendering.result_text import failure_text, refusals, value_text

    if as_json:
        printer.put(STDOUT, result.model_dump_json(indent=2) + "\n")
        return
    if value := value_text(result):
        printer.put_line(STDOUT, value)
    if result.error is not None:
        printer.put_line(STDERR, failure_text(result.error))
    for line in refusals(result):
        printer.put_line(STDERR, f"gloveport: {line}")
    if result.status not in {"ok", "error"}:
        limits = f" ({', '.join(result.limits_hit)})" if result.limits_hit else ""
        printer.put_line(STDERR, f"gloveport: {result.status}{limits}")
    was_printed = result.limits_hit == ("output_bytes",) and (result.stdout.truncated or result.stderr.truncated)
    if result.hint and not was_printed:  # all of it: only an answer to an agent is cut
        printer.put_line(STDERR, f"hint: {result.hint}")


def _put_out(printer: "Printer", engine: "Engine", caller: str, result: "Result", out: Path | None) -> None:
    """Write what the program has left, or say that it is there and is not kept."""
    from gloveport.cli.artifact_files import write_artifacts
    from gloveport.cli.printer import STDERR

    left = result.artifacts
    if left.files and out is None:
        printer.put_line(STDERR, f"gloveport: {len(left.files)} files in /out are not kept")
        printer.put_line(STDERR, "hint: --out DIR puts them there")
    if out is not None:
        try:
            write_artifacts(engine.artifacts, caller, left.files, out)
        except OSError as error:
            printer.put_line(STDERR, f"gloveport: --out {out}: {error.strerror}")
        else:
            for one in left.files:
                printer.put_line(STDERR, f"gloveport: {out / one.path.removeprefix('/out/')} ({one.bytes} bytes)")
    for line in left.left_out:
        printer.put_line(STDERR, f"gloveport: not kept: {line}")


def _unwritable(error: OSError) -> int:
    """The exit code when the output could not be written: silent where its reader has gone, as other programs are."""
    if error.errno == errno.EPIPE:
        return 128 + SIGPIPE
    typer.echo(f"gloveport: the output can't be written: {error.strerror}", err=True)
    return 1
