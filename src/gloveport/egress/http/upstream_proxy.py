"""Opens connections to servers through the HTTP proxy that this host has to use (CONNECT; RFC 9110, 9.3.6).

The proxy resolves names, so we can't check addresses. So it is used for HTTPS alone: the server has proved its name
before anything of a request is sent. Programs are told only the status of the proxy's answers.
"""

import base64
import logging
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from gloveport.egress.http.heads import HEAD_BYTES, Malformed, find_end, read_response
from gloveport.egress.transport.dial import CONNECT_SECONDS, Dialer, limit_time
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.model.proxy import Proxy

_ANYWHERE: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""Networks for the proxy itself: it may be anywhere, since the operator has named it."""

_MOST_LINES: Final = 256
_log = logging.getLogger(__name__)


class UpstreamProxy(Struct, frozen=True, kw_only=True):
    """The proxy."""

    owner: ForwardProxy

    def settings_for(self, route: Route) -> Proxy | None:
        """The present settings of the proxy, if a route goes through it: not if it has addresses or networks of the
        operator's, or no API.

        A program that was granted ``yolo`` chooses the names itself, and may still run when a proxy is configured.
        """
        is_placed = bool(route.networks or route.addresses)
        is_served = bool(route.api) and not is_placed and self.owner.serves(route.scheme, route.host)
        return self.owner.settings if is_served else None

    async def open(self, dialer: Dialer, route: Route) -> SocketStream:
        """Open a connection to the server of a route, verified by TLS.

        Raises:
            UpstreamError: ``secret_unavailable``, ``upstream_unreachable``, ``upstream_timeout`` or ``tls_failed``.
        """
        place = urlsplit(self.owner.settings.url or "")
        request = await self._make_request(route)
        to_proxy = Route(api="", scheme="http", host=place.hostname or "", port=place.port or 0, networks=_ANYWHERE)
        try:
            wire = await dialer.connect(to_proxy)
        except UpstreamError as error:
            _log.warning("the proxy: %s", error.args[0])
            raise UpstreamError(error.code, "The owner's proxy can't be reached.") from error
        try:
            async with limit_time(route, CONNECT_SECONDS, "reach"):
                await wire.send(request)
                status = await _read_status(wire)
        except (OSError, Malformed) as error:
            wire.close()
            raise UpstreamError("upstream_unreachable", f"The owner's proxy broke off: {error}.") from error
        except BaseException:
            wire.close()
            raise
        if status // 100 != 2:
            wire.close()
            raise self.owner.refusal(route.host, route.port, status)
        await dialer.secure(wire, route, ("http/1.1",))
        return wire

    async def _make_request(self, route: Route) -> bytes:
        host = f"{route.host}:{route.port}"
        lines = [f"CONNECT {host} HTTP/1.1", f"Host: {host}"]
        if credentials := await self.owner.credentials():
            pair = base64.b64encode(":".join(credentials).encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {pair}")
        return "\r\n".join([*lines, "", ""]).encode()


async def _read_status(wire: SocketStream) -> int:
    """Read the status of the proxy's answer. No data may follow it, for a TLS server does not send first.

    Raises:
        OSError: The connection broke.
        Malformed: The answer is no HTTP.
    """
    head = bytearray()
    while not (end := find_end(head, _MOST_LINES, 0)):
        data = await wire.receive(HEAD_BYTES)
        if not data:
            raise OSError("it hung up")
        head += data
    if len(head) > end:
        raise Malformed("it says more than was asked")
    return read_response(bytes(head)).status
