"""Says what goes through the owner's proxy, and gives what it wants to know: one answer for all who go out."""

import logging

from msgspec import Struct

from gloveport.errors import ConfigError, UpstreamError
from gloveport.model.proxy import Proxy
from gloveport.policy.hosts.authorities import is_address, spellings
from gloveport.secrets.vault import Vault

_NOT_AUTHORIZED = 407
_log = logging.getLogger(__name__)


class ForwardProxy(Struct, eq=False, kw_only=True):
    """The proxy, as the configuration has it.

    Attributes:
        settings: What the operator says of it. Others may take their place: they count for the next connection.
        vault: Has its password.
    """

    settings: Proxy
    vault: Vault

    def serves(self, scheme: str, host: str) -> bool:
        """Whether a connection goes through it: HTTPS to a name that is neither this host's nor reached directly.
        ``host`` is canonical: a name in small letters, or an address.
        """
        if self.settings.url is None or scheme != "https" or is_address(host):
            return False
        is_local = host.rpartition(".")[2] == "localhost"
        return not is_local and not any(spelling in self.settings.direct for spelling in spellings(host))

    async def credentials(self) -> tuple[str, str] | None:
        """User and password of the present settings; None where it asks for none.

        Raises:
            UpstreamError: ``secret_unavailable``.
        """
        settings = self.settings
        if settings.secret is None:
            return None
        try:
            return settings.username, await self.vault.get("proxy", settings.secret)
        except ConfigError as error:
            _log.warning("the password of the proxy: %s", error)
            raise UpstreamError("secret_unavailable", "The password of the owner's proxy can't be had.") from error

    def refusal(self, host: str, port: int, status: int) -> UpstreamError:
        """Why there is no connection, by the status of the proxy's answer: of what it says nothing else is told."""
        if status == _NOT_AUTHORIZED and self.settings.secret is not None:
            self.vault.forget(self.settings.secret)  # the owner may put another there
        why = "it asks for a password, or for another" if status == _NOT_AUTHORIZED else f"status {status}"
        message = f"The owner's proxy does not connect to {host}:{port}: {why}."
        hint = "The owner has to look at [proxy] of the configuration, or ask who runs the proxy."
        return UpstreamError("upstream_unreachable", message, hint=hint)
