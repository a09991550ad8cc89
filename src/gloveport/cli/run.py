"""``gloveport run``: one program in the sandbox, as if it ran here."""

from pathlib import Path
from typing import Annotated

import typer

from gloveport.cli.options import ConfigOption
from gloveport.cli.run_options import RunOptions
from gloveport.cli.single_run import run_program_here


def run(  # noqa: PLR0913, PLR0917 - they are the options
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The program; - is standard input.")] = None,
    code: Annotated[str | None, typer.Option("-c", "--code", metavar="CODE", help="The program itself.")] = None,
    language: Annotated[
        str | None, typer.Option("-l", "--language", help="Default: by FILE's name, else python.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Wall-clock limit.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory limit, such as 256MiB.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="PATH[=NAME]", help="A file for the program's directory; may be repeated."),
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
    options = RunOptions(
        file=file,
        code=code,
        language=language,
        timeout=timeout,
        memory=memory,
        environment=env,
        config=config,
        as_json=as_json,
        files=files or (),
        out=out,
    )
    raise typer.Exit(run_program_here(options))
