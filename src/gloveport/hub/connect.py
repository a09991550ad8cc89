"""Connects to a configured server, by a process or a URL, with the server's secrets, which no other server gets.

Secrets are resolved at each connect, so that a renewed one counts.
"""

import contextlib
import functools
import logging
import ssl
from collections.abc import AsyncIterator, Mapping

from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from gloveport.errors import ConfigError, UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub.connection import http_connection, stdio_connection
from gloveport.hub.connection.upstream import Upstream
from gloveport.hub.connection.wire import Connect, Reading, Writing
from gloveport.hub.credentials.auth import auth_of
from gloveport.hub.credentials.login_storage import Logins
from gloveport.hub.server_state import OnTools, Record
from gloveport.model.egress import Secret
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent
from gloveport.secrets.vault import Vault

_log = logging.getLogger(__name__)


class Connector(Struct, frozen=True, kw_only=True):
    """Reaches servers.

    Attributes:
        vault: Holds the secrets, and is told the tokens that are obtained.
        environ: Our own environment, of which a server gets a few harmless variables.
        record: Writes to the audit log, before each connect.
    """

    vault: Vault
    logins: Logins
    environ: Mapping[str, str]
    record: Record
    proxy: ForwardProxy | None = None

    def upstream(self, name: str, server: Server, tasks: TaskGroup, on_tools: OnTools) -> Upstream:
        """Make the object for the server of this name, not connected yet."""
        return Upstream(name, server, self.ways(name, server), tasks=tasks, on_tools=on_tools, clean=self.vault.clean)

    def ways(self, name: str, server: Server) -> tuple[Connect, ...]:
        """List the ways to connect, in the order in which to try them."""
        if server.command:
            return (functools.partial(self._process, name, server),)
        several = ("http", "sse") if server.transport == "auto" else (server.transport,)
        return tuple(
            functools.partial(self._url, name, server.model_copy(update={"transport": transport}))
            for transport in several
        )

    @contextlib.asynccontextmanager
    async def _process(self, name: str, server: Server) -> AsyncIterator[tuple[Reading, Writing]]:
        self.record("server.connecting", {"server": name, "transport": "stdio"})
        secrets = {variable: await self._secret(name, variable, ref) for variable, ref in server.secret_env.items()}
        async with stdio_connection.connect(
            name, server, environ=self.environ, secrets=secrets, clean=self.vault.clean
        ) as streams:
            yield streams

    async def _secret(self, name: str, variable: str, ref: Secret) -> str:
        try:
            return await self.vault.get_text(f"servers.{name}.{variable}", ref)
        except ConfigError as error:  # only our log says where the secret is stored and why it can't be read
            _log.warning("the server %s can't be started: %s: %s", name, variable, error)
            raise UpstreamError(
                "secret_unavailable",
                f"The secret for the variable {variable} of the server {quote_sent(name)} can't be had.",
                hint="The owner has to repair it; `gloveport doctor` tells why.",
            ) from error

    @contextlib.asynccontextmanager
    async def _url(self, name: str, server: Server) -> AsyncIterator[tuple[Reading, Writing]]:
        self.record("server.connecting", {"server": name, "transport": server.transport})
        tls = await to_thread.run_sync(_context, name, server)
        auth = await auth_of(name, server, vault=self.vault, logins=self.logins, tls=tls, proxy=self.proxy)
        async with http_connection.connect(name, server, auth=auth, verify=tls, proxy=self.proxy) as streams:
            yield streams


def _context(name: str, server: Server) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=server.ca_file)
    except OSError as error:
        raise UpstreamError(
            "server_unavailable",
            f"The certificates for the server {quote_sent(name)} can't be read.",
            hint=f"The owner has to look at its ca_file: {error.strerror or error}.",
        ) from error
