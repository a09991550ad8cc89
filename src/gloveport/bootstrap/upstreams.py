"""Makes the hub of one server. Separate from ``app``: without servers nobody waits for the MCP library."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from gloveport.audit.log import AuditLog
from gloveport.config import Config, environ_outside, state_directory
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub import hub
from gloveport.hub.connect import Connector
from gloveport.hub.credentials.login_storage import Logins
from gloveport.hub.hub import Hub
from gloveport.hub.pins import Pins
from gloveport.model.hub import Server


def connect_servers(
    config: Config, environ: Mapping[str, str], proxy: ForwardProxy, audit: AuditLog
) -> AbstractAsyncContextManager[Hub]:
    """The hub to the servers of the configuration; see ``hub.open_hub``."""
    environ = environ_outside(config, environ)
    servers = {name: _without_workspace(server, config, environ) for name, server in config.servers.items()}
    state = state_directory(environ)
    logins = Logins(directory=state / "oauth", environ=environ)
    connector = Connector(vault=proxy.vault, logins=logins, environ=environ, record=audit.append, proxy=proxy)
    return hub.open_hub(
        servers,
        pins=Pins(state / "servers"),
        connect=connector.upstream,
        record=audit.append,
        clean=proxy.vault.clean,
    )


def _without_workspace(server: Server, config: Config, environ: Mapping[str, str]) -> Server:
    """The server, with no entry of a workspace on a PATH of its own."""
    if "PATH" not in server.env:
        return server
    path = environ_outside(config, {**environ, "PATH": server.env["PATH"]})["PATH"]
    return server.model_copy(update={"env": {**server.env, "PATH": path}})
