"""Serves the clients of ``gloveport serve``."""

import contextlib
import os
import sys
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, NamedTuple

from gloveport.cli.config_loading import load_with_origins
from gloveport.cli.usage import UsageError
from gloveport.errors import ConfigError
from gloveport.untrusted_text import printable_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from signal import Signals

    from gloveport.cli.backend import Backend
    from gloveport.config import Config, Loaded

_PORT = 8080
_ON_A_TERMINAL = (
    "gloveport: waiting for an MCP client on standard input, which is a terminal: a client starts this command itself,"
    ' once it is configured to (README, "Use it"); for HTTP add --http; Ctrl-C ends it'
)


class ServeOptions(NamedTuple):
    """The options of a command line.

    Attributes:
        port: The port for HTTP; None for the default.
        workspace: The directory of the workspace; None for the configured one.
        toolsets: The toolsets to offer; empty for all.
    """

    http: bool = False
    port: int | None = None
    workspace: str | None = None
    toolsets: str = ""
    config: Path | None = None


def serve_clients(options: ServeOptions) -> int:
    """Serve until the clients disconnect or a signal comes; return the exit code.

    Raises:
        UsageError: The options exclude each other.
        GloveportError: The configuration is wrong, or over HTTP a layer of the sandbox is missing.
    """
    from gloveport.event_loop import run
    from gloveport.model.hub import NESTED

    if options.port is not None and not options.http:
        raise UsageError("--port is for --http")
    if os.environ.get(NESTED):
        raise ConfigError(
            "this Gloveport was started by another one, as one of its servers: it would call itself",
            hint="take it out of [servers] of the configuration",
        )
    port = (_PORT if options.port is None else options.port) if options.http else None
    return run(_serve, options.config, port, {"root": options.workspace, "toolsets": options.toolsets})


async def _serve(config_path: Path | None, port: int | None, options: "Mapping[str, object]") -> int:
    """Serve until the client disconnects or a signal comes, even before the backend is open."""
    import anyio

    from gloveport.bootstrap.workspace_options import with_workspace
    from gloveport.config import refuse_as_workspace
    from gloveport.server.process.signals import on_end_signal

    if port is None and os.isatty(0):
        sys.stderr.write(f"{_ON_A_TERMINAL}\n")
    mark = _fingerprint(config_path)
    found = load_with_origins(config_path)
    config = with_workspace(found.config, options)
    settings = config.workspace
    if settings.root is not None and ("workspace" in settings.toolsets or settings.programs != "none"):
        refuse_as_workspace(settings.root, config, os.environ, found.believed)
    # If a file has changed since the fingerprint, the loaded configuration may be the old one or the new one. And
    # ``gloveport run`` must get the files' configuration, without options of this command line.
    shared = mark if config == found.config and settings.root is None and mark == _fingerprint(config_path) else None
    served: list[Signals] = []
    with anyio.CancelScope() as scope, on_end_signal(scope.cancel) as unserved:
        if port is None:
            served = await _serve_stdio(found, config, config_path, shared)
        else:
            served = await _serve_http(found, config, config_path, port, shared)
    return 128 + SIGINT if [*served, *unserved][:1] == [SIGINT] else 0


def _fingerprint(config_path: Path | None) -> str | None:
    from gloveport.cli.run_protocol import fingerprint

    try:
        return fingerprint(config_path, cwd=Path.cwd(), environ=os.environ)
    except OSError:  # there is no working directory, or the directory of APIs can't be listed
        return None


@contextlib.asynccontextmanager
async def _answering_commands(backend: "Backend", shared: str | None) -> "AsyncIterator[None]":
    """Answer ``gloveport ports`` if there is a workspace, and run programs for ``gloveport run`` if ``shared``, the
    fingerprint of the configuration, is not None.
    """
    async with contextlib.AsyncExitStack() as stack:
        if backend.service is not None and backend.config.workspace.ports:
            from gloveport.cli.port_service import answer_ports

            answering = answer_ports(backend.service.sandboxes.ports, backend.engine.audit, os.environ)
            await stack.enter_async_context(answering)
        if shared is not None:
            from gloveport.cli.run_service import answer_runs

            running = answer_runs(backend.engine, backend.config.policy.limits, shared, os.environ)
            await stack.enter_async_context(running)
        yield


async def _serve_http(
    found: "Loaded", config: "Config", config_path: Path | None, port: int, shared: str | None
) -> "list[Signals]":
    """Serve on this port, after the host was found to be sound."""
    from anyio import to_thread

    from gloveport.cli.backend import open_backend

    async with open_backend(found, config, config_path, "http") as backend, _answering_commands(backend, shared):
        from gloveport.server.transports.http import serve_http  # a thread has imported it already

        server = await to_thread.run_sync(backend.make_server)
        limits, engine = config.policy.limits, backend.engine
        return await serve_http(
            server, port, limits=limits, ready=_announce, program_sessions=engine.sessions, runs=engine.runs
        )


async def _serve_stdio(
    found: "Loaded", config: "Config", config_path: Path | None, shared: str | None
) -> "list[Signals]":
    """Answer the client at once, and open the backend for its calls meanwhile."""
    import anyio

    from gloveport.cli.backend import open_backend
    from gloveport.errors import GloveportError, GuestError, SandboxError
    from gloveport.server.server_offer import ServerOffer
    from gloveport.server.startup import Startup
    from gloveport.server.transports.stdio import serve_stdio

    startup = Startup(offer=ServerOffer(config=config), has_skills=lambda: _has_skills(config))
    ending = anyio.Event()
    failure: GloveportError | None = None
    signals: list[Signals] = []

    async def open_and_wait() -> None:
        nonlocal failure
        try:
            async with open_backend(found, config, config_path, "stdio", startup) as backend:
                startup.settle(backend.make_server, backend.fast_tools())
                async with _answering_commands(backend, shared):
                    await ending.wait()
        except GloveportError as error:
            if isinstance(error, SandboxError | GuestError) and not startup.is_settled:
                sys.stderr.write(f"gloveport: {printable_lines(str(error))}\n")
                startup.refuse(str(error))  # if the server exited, clients would show nothing but the exit code
            else:
                failure = error
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_and_wait)
        signals = await serve_stdio(startup, config.clients.structured)
        ending.set()
        if not startup.is_settled:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return signals


def _has_skills(config: "Config") -> bool:
    from gloveport.bootstrap.skill_places import open_library

    return not open_library(config, os.environ).is_empty


def _announce(address: str) -> None:
    sys.stderr.write(f"gloveport: serving {address}\n")
