"""Makes the hub of one server. Separate from ``app``: without servers nobody waits for the MCP library."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from gloveport.audit.log import AuditLog
from gloveport.config import Config, environ_outside, state_directory
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub import hub
from gloveport.hub.connect import Connector
from gloveport.hub.credentials.login_storage import Logins
from gloveport.hub.hub import Hub
from gloveport.hub.pins import Pins


@contextlib.asynccontextmanager
async def connect_servers(
    config: Config, environ: Mapping[str, str], proxy: ForwardProxy, audit: AuditLog
) -> AsyncIterator[Hub]:
    """The hub to the servers of the configuration; see ``hub.open_hub``."""
    environ = environ_outside(config, environ)
    servers = {
        name: server.model_copy(update={"env": environ_outside(config, server.env)}) if "PATH" in server.env else server
        for name, server in config.servers.items()
    }
    state = state_directory(environ)
    logins = Logins(directory=state / "oauth", environ=environ)
    connector = Connector(vault=proxy.vault, logins=logins, environ=environ, record=audit.append, proxy=proxy)
    async with hub.open_hub(
        servers,
        pins=Pins(state / "servers"),
        connect=connector.upstream,
        record=audit.append,
        clean=proxy.vault.clean,
    ) as opened:
        yield opened
