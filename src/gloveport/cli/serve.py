"""``gloveport serve``: the MCP server. Standard output belongs to the protocol, all else goes to standard error."""

from typing import Annotated

import typer

from gloveport.cli.mcp_service import ServeOptions, serve_clients
from gloveport.cli.options import ConfigOption


def serve(
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP on 127.0.0.1 instead of stdio.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port for --http; 0 takes a free one.", show_default="8080")
    ] = None,
    workspace: Annotated[
        str | None,  # of an empty one a Path would make the working directory
        typer.Option("--workspace", metavar="DIR", help="Offer tools that read, change and run what is in DIR."),
    ] = None,
    toolsets: Annotated[
        str,
        typer.Option(
            "--toolsets", metavar="NAMES", help="Which tools: code,workspace,skills or some.", show_default="all"
        ),
    ] = "",
    config: ConfigOption = None,
) -> None:
    """Serve MCP clients over stdio, or HTTP, until they go away or a signal comes.

    The exit code is 0, or 130 after Ctrl-C; 2: the configuration is wrong; 4: over HTTP, a layer of the sandbox is
    missing; over stdio every call is answered with that.
    """
    options = ServeOptions(http=http, port=port, workspace=workspace, toolsets=toolsets, config=config)
    raise typer.Exit(serve_clients(options))
