"""``gloveport exec``: any program in the sandbox of a workspace's commands, with the terminal of whoever calls it."""

from typing import Annotated

import typer

from gloveport.cli.foreground_run import ExecOptions, run_in_foreground
from gloveport.cli.options import ConfigOption


def execute(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The program, and its arguments.")],
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", metavar="DIR", help="The directory it may write. Default: the working directory."),
    ] = None,
    apis: Annotated[
        list[str] | None,
        typer.Option(
            "--api",
            metavar="NAME",
            help="An API of the configuration that it may use; may be repeated. Default: all.",
        ),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--env", metavar="NAME", help="An environment whose packages and programs it is to have."),
    ] = None,
    no_network: Annotated[bool, typer.Option("--no-network", help="Let it use none.")] = False,
    config: ConfigOption = None,
) -> None:
    """Run a program in a sandbox that sees one directory, with this terminal, and credentials put in on the way out.

    The exit code is the program's, 128 and the signal's number where it died by one; 124: its time is over; 137: it was
    killed at another limit; 2: usage or configuration; 3: denied; 4: no sandbox can be built here.
    """
    options = ExecOptions(
        command=tuple(command),
        workspace=workspace,
        apis=tuple(apis or ()),
        environment=environment,
        no_network=no_network,
        config=config,
    )
    raise typer.Exit(run_in_foreground(options))
