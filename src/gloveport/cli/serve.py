"""``gloveport serve``: the MCP server. Standard output belongs to the protocol, all else goes to standard error."""

import os
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated

import typer

from gloveport.cli.options import ConfigOption, load_with_origins
from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from signal import Signals

_PORT = 8080
_ON_A_TERMINAL = (
    "gloveport: waiting for an MCP client on standard input, which is a terminal: a client starts this command itself,"
    ' once it is configured to (README, "Use it"); for HTTP add --http; Ctrl-C ends it'
)


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
        str, typer.Option("--toolsets", metavar="NAMES", help="Which tools: code, workspace.", show_default="both")
    ] = "",
    config: ConfigOption = None,
) -> None:
    """Serve MCP clients over stdio, or HTTP, until they go away or a signal comes.

    The exit code is 0, or 130 after Ctrl-C; 2: the configuration is wrong; 4: a layer of the sandbox is missing.
    """
    from gloveport.event_loop import run
    from gloveport.model.hub import NESTED

    if port is not None and not http:
        raise typer.BadParameter("--port is for --http")
    if os.environ.get(NESTED):
        raise ConfigError(
            "this Gloveport was started by another one, as one of its servers: it would call itself",
            hint="take it out of [servers] of the configuration",
        )
    told = {"root": workspace, "toolsets": toolsets}
    raise typer.Exit(run(_serve, config, (_PORT if port is None else port) if http else None, told))


async def _serve(given: Path | None, port: int | None, told: "Mapping[str, object]") -> int:
    """Serve until the client goes away or a signal comes, which may come before there is anything to serve."""
    import anyio

    from gloveport.server.process.signals import on_end_signal

    served: list[Signals] = []
    with anyio.CancelScope() as scope, on_end_signal(scope.cancel) as unserved:
        served = await _start_and_serve(given, port, told)
    return 128 + SIGINT if [*served, *unserved][:1] == [SIGINT] else 0


async def _start_and_serve(given: Path | None, port: int | None, told: "Mapping[str, object]") -> "list[Signals]":
    """Check the host, then serve: over HTTP on this port, or over stdio. Returns the signals that came meanwhile."""
    import contextlib
    import gc
    import resource

    from gloveport.bootstrap import app
    from gloveport.bootstrap.build import open_host
    from gloveport.bootstrap.config_reload import following
    from gloveport.bootstrap.inspection import inspect_host, require, warn_of_cold_start
    from gloveport.bootstrap.upstreams import connect_servers
    from gloveport.bootstrap.workspace import open_workspace, with_view, with_workspace
    from gloveport.engine.caller import Transport
    from gloveport.server.process.watchdog import watch_loop
    from gloveport.server.protocol import make_server, record_lifetime
    from gloveport.server.tools.fast_tools import fast_tools
    from gloveport.server.transports.http import serve_http
    from gloveport.server.transports.stdio import serve_stdio

    if port is None and os.isatty(0):
        typer.echo(_ON_A_TERMINAL, err=True)
    found = load_with_origins(given)
    config = with_workspace(found.config, told)
    # Each sandbox that waits takes a dozen descriptors; the usual soft limit is meant for programs that use select().
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    transport: Transport = "stdio" if port is None else "http"
    async with contextlib.AsyncExitStack() as stack:
        host = stack.enter_context(open_host(config))
        config = with_view(config, host.system, os.environ, found.believed)
        engine = await stack.enter_async_context(app.assemble_on(host, config, os.environ, connect_servers))
        checks = await inspect_host(host, config, engine.reach.network)
        require(checks)
        warn_of_cold_start(checks)
        service = await stack.enter_async_context(open_workspace(engine, config, os.environ, transport, found.believed))
        server = make_server(engine, config, os.environ, transport, service)
        # What is there by now stays. To look through it for garbage again takes 50 ms, while a client waits.
        gc.collect()
        gc.freeze()
        stack.enter_context(watch_loop())
        async with record_lifetime(engine, transport), following(engine, found, given, os.environ):
            if port is None:
                came = await serve_stdio(server, fast_tools(service) if service else {}, config.clients.structured)
            else:
                limits = config.policy.limits
                came = await serve_http(server, port, limits=limits, ready=_announce, kept=engine.sessions)
    return came


def _announce(address: str) -> None:
    typer.echo(f"gloveport: serving {address}", err=True)
