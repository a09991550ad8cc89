"""Opens the backend of a server: engine and workspace. Over stdio, clients are answered already meanwhile.

A thread imports the modules that this configuration needs, while the host's interpreters are asked for their versions.
"""

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from msgspec import Struct

from gloveport.cli.file_limit import raise_file_limit
from gloveport.cli.garbage import collect_from_now_on
from gloveport.late_module import import_now

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from gloveport.bootstrap.app import Connected
    from gloveport.bootstrap.host_setup import Host
    from gloveport.config import Config, Loaded
    from gloveport.engine.caller import Transport
    from gloveport.engine.execution import Engine
    from gloveport.server.fast_path import FastTool
    from gloveport.server.server_offer import ServerOffer
    from gloveport.server.startup import Startup
    from gloveport.workspace_service.service import WorkspaceService

_MODULES: Final = (
    "gloveport.bootstrap.app",
    "gloveport.bootstrap.config_reload",
    "gloveport.bootstrap.inspection",
    "gloveport.bootstrap.remembered_checks",
    "gloveport.server.process.lifetime",
    "gloveport.server.tools.fast_execute",
)
"""Modules that every server needs."""


class Backend(Struct, frozen=True, kw_only=True):
    """The engine and the workspace of a server."""

    engine: "Engine"
    config: "Config"
    transport: "Transport"
    service: "WorkspaceService | None"

    def make_server(self) -> "MCPServer[Any]":
        """Make the SDK's server. May be called in a thread. Raises OSError if no descriptor is left to import it."""
        import_now("gloveport.server.protocol")
        from gloveport.server.protocol import make_server

        return make_server(self.engine, self.config, os.environ, self.transport, self.service)

    def fast_tools(self) -> "Mapping[str, FastTool]":
        """Make the tools of the fast path."""
        from gloveport.server.tools.fast_execute import fast_execute, fast_run_skill
        from gloveport.server.tools.run_calls import RunCalls

        tools: dict[str, FastTool] = {}
        calls, toolsets = RunCalls(engine=self.engine), self.config.workspace.toolsets
        if self.service is None or "code" in toolsets:
            tools["execute_code"] = fast_execute(calls)
            if "skills" in toolsets:
                tools["run_skill"] = fast_run_skill(calls)
        if self.service is not None:
            from gloveport.server.tools.fast_tools import fast_tools

            tools |= fast_tools(self.service)
        return tools


@contextlib.asynccontextmanager
async def open_backend(
    found: "Loaded",
    config: "Config",
    config_path: Path | None,
    transport: "Transport",
    startup: "Startup | None" = None,
) -> AsyncIterator[Backend]:
    """Inspect the host, build engine and workspace, and check that the host is sound. ``found`` is the configuration as
    it was loaded, ``config`` the same with the options of the command line. ``startup`` gets the offer as soon as it is
    known.

    Raises:
        ConfigError: Something that is configured is not available.
        SandboxError: This host lacks a layer, or this process may open too few files.
        AuditError: The audit log can't be written.
    """
    async with contextlib.AsyncExitStack() as stack:
        raise_file_limit()
        await to_thread.run_sync(import_now, "gloveport.bootstrap.host_setup")
        # What is imported here was imported by a thread.
        from gloveport.bootstrap.host_setup import find_beside, make_host, open_launcher

        launcher, tree = stack.enter_context(open_launcher(config))
        importing = functools.partial(_import_all, config, transport)
        interpreters = await to_thread.run_sync(find_beside, importing, config, os.environ)
        from gloveport.bootstrap.app import assemble_on
        from gloveport.bootstrap.config_reload import following
        from gloveport.bootstrap.inspection import inspect_host, require, warn_of_cold_start
        from gloveport.bootstrap.remembered_checks import recall_checks, remember_checks
        from gloveport.config import environ_outside
        from gloveport.server.process.lifetime import record_lifetime
        from gloveport.server.process.watchdog import watch_loop

        host = make_host(config, launcher, tree, interpreters)
        configured, config = config, show_workspace(config, host, found)
        if startup is not None:
            startup.set_offer(_offer(config, host))
        engine = await stack.enter_async_context(assemble_on(host, config, os.environ, choose_connect(config)))
        checks = recall_checks(host, configured, os.environ)
        if checks is None:
            checks = await inspect_host(host, config, engine.reach.network)
            require(checks)
            remember_checks(host, configured, os.environ, checks)
        warn_of_cold_start(checks)
        service = None
        if config.workspace.root is not None:
            from gloveport.bootstrap.workspace import open_workspace

            opened = open_workspace(engine, config, os.environ, transport, found.believed)
            service = await stack.enter_async_context(opened)
        collect_from_now_on()
        stack.enter_context(watch_loop())
        await stack.enter_async_context(record_lifetime(engine, transport))
        # The loaded configuration need not know the workspace.
        environ = environ_outside(config, os.environ)
        await stack.enter_async_context(following(engine, found, config_path, environ))
        yield Backend(engine=engine, config=config, transport=transport, service=service)


def choose_connect(config: "Config") -> "Connected":
    """Choose how to connect to the configured servers. Without servers, the SDK is not imported for it."""
    from gloveport.bootstrap.app import open_no_hub

    if not config.servers:
        return open_no_hub
    from gloveport.bootstrap.upstreams import connect_servers

    return connect_servers


def _import_all(config: "Config", transport: "Transport") -> None:
    import_now(*_MODULES)
    from gloveport.bootstrap.app import modules_of

    late = modules_of(config)
    workspace = ("gloveport.bootstrap.workspace",) if config.workspace.root is not None else ()
    if transport == "http":
        late += ["gloveport.server.protocol", "gloveport.server.transports.http"]
    elif late or workspace:  # these calls need the SDK
        late += ["gloveport.server.protocol", "gloveport.server.transports.sdk_session"]
    import_now(*late, *workspace)


def show_workspace(config: "Config", host: "Host", found: "Loaded") -> "Config":
    """Add a read-only mount of the workspace to the configuration, if programs are to see the workspace.

    Raises:
        ConfigError: The directory can't be a workspace.
        SandboxError: There is no path in the sandbox to mount it at.
    """
    if config.workspace.root is None:
        return config
    from gloveport.bootstrap.workspace import with_view

    return with_view(config, host.system, os.environ, found.believed)


def _offer(config: "Config", host: "Host") -> "ServerOffer":
    from gloveport.server.server_offer import ServerOffer

    writable = ""
    if config.workspace.root is not None:
        from gloveport.bootstrap.workspace import writable_view

        view = writable_view(config)
        writable = view.target if view else ""
    return ServerOffer(config=config, packages=host.runtimes["python"].packages, writable=writable)
