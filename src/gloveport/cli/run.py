"""``gloveport run``: one program in the sandbox, as if it ran here."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gloveport.cli.artifact_files import read_inputs
from gloveport.cli.exit_codes import OF_A_RUN, of_unwritten
from gloveport.cli.file_suffixes import DEFAULT, SUFFIXES
from gloveport.cli.garbage import collect_from_now_on
from gloveport.cli.options import ConfigOption, load_config

if TYPE_CHECKING:
    from gloveport.config import Config
    from gloveport.model import Request, Result


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
    from gloveport.cli.run_printing import read_request
    from gloveport.event_loop import run as run_loop

    if file is None and code is None and sys.stdin.isatty():
        raise typer.BadParameter("name a FILE, give -c CODE, or - to read standard input")
    if file is not None and code is not None:
        raise typer.BadParameter("give a FILE or -c CODE, not both")
    loaded = load_config(config)
    limits = loaded.policy.limits
    source = _read(file, limits.code_bytes) if code is None else code
    asked = {
        "language": language or _language_of(file),
        "code": source,
        "environment": env,
        "limits": {"wall_seconds": timeout, "memory_bytes": memory},
    }
    request = read_request(asked)
    if files:
        request = request.model_copy(update={"files": read_inputs(files, limits.input_bytes)})
    raise typer.Exit(run_loop(_execute, loaded, request, as_json, out))


def _language_of(file: Path | None) -> str:
    if file is None or not file.suffix:
        return DEFAULT
    if file.suffix not in SUFFIXES:
        raise typer.BadParameter(
            f"{file.name!r} does not tell its language: give --language, or use {', '.join(SUFFIXES)}"
        )
    return SUFFIXES[file.suffix]


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


async def _execute(config: "Config", request: "Request", as_json: bool, out: Path | None) -> int:
    """Run it in this process, and tell the exit code."""
    import anyio

    from gloveport.cli.backend import choose_connect, find_meanwhile
    from gloveport.errors import GloveportError

    with find_meanwhile(config) as interpreters:
        from gloveport.bootstrap import app
        from gloveport.cli.printer import printing
        from gloveport.cli.run_printing import run_program
        from gloveport.config.schema import PoolSettings
        from gloveport.server.process.signals import on_end_signal

    ended: Result | GloveportError | None = None
    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})  # there is one program, and it is here
    async with app.assemble(alone, os.environ, choose_connect(config), interpreters.result()) as engine:
        collect_from_now_on()
        with anyio.CancelScope() as scope, on_end_signal(scope.cancel) as came:
            async with printing(scope) as printer:
                try:
                    ended = await run_program(engine, request, config.policy.limits, printer, as_json=as_json, out=out)
                except GloveportError as error:
                    ended = error
    if isinstance(ended, GloveportError):
        raise ended
    if came:
        return 128 + came[0]
    if printer.failure is not None:
        return of_unwritten(printer.failure)
    return OF_A_RUN[ended.status] if ended else 1
