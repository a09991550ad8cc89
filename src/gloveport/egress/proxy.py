"""Answers on the doors of an execution: what a connection leads to, and what is spoken on it.

At the proxy door a program says where it wants to go. Everywhere else it is known from the address that it has
connected to, which stands for a granted name inside. Where TLS is spoken it ends here.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping

from gloveport.egress.exchange import exchange
from gloveport.egress.heads import Malformed, RequestHead
from gloveport.egress.network import PROXY
from gloveport.egress.outlet import Outlet
from gloveport.egress.postgres import serve_postgres
from gloveport.egress.redis import serve_redis
from gloveport.egress.request import Site, malformed, parse_authority
from gloveport.egress.server_connection import Conversation
from gloveport.egress.tunnel import tunnel
from gloveport.egress.wire import Wire
from gloveport.errors import Denied
from gloveport.model.egress import Api, ConnectionScheme
from gloveport.policy.hosts import canonical_host, find

_HANDSHAKE = b"\x16"  # TLS record type
_CONNECTIONS: Mapping[ConnectionScheme, Callable[[Outlet, Wire, str, Api, str, int], Awaitable[None]]] = {
    "tcp": tunnel,
    "postgres": serve_postgres,
    "redis": serve_redis,
}


async def answer(outlet: Outlet, connection: socket.socket) -> None:
    """Answer on one connection until it is over, and close it.

    Raises:
        OSError: It broke.
        AuditError: What is asked can't be written down.
    """
    wire = Wire(connection)
    with contextlib.closing(wire):
        outlet.require_connection()
        address, port = wire.local_address
        if (address, port) == PROXY:
            await _converse(outlet, wire, None)
        else:
            await _lead(outlet, wire, outlet.names.get(address, address), port)


async def _lead(outlet: Outlet, wire: Wire, host: str, port: int) -> None:
    """A connection that leads to one place: a database, or passed on unseen where that is granted, else HTTP."""
    for scheme, serve in _CONNECTIONS.items():
        if found := find(outlet.guard.grant.egress, scheme, host, port):
            await serve(outlet, wire, *found, host, port)
            return
    first = await wire.peek()
    if first != _HANDSHAKE:
        await _converse(outlet, wire, Site("http", host, port))
        return
    await wire.answer_tls(outlet.gateway.authority.context(host))
    if _disagrees(wire.asked_name, host):
        denial = Denied("names_disagree", f"The connection leads to {host}, and TLS names another place.")
        outlet.deny(denial, url=f"https://{host}:{port}")
        return
    await _converse(outlet, wire, Site("https", host, port))


def _disagrees(asked: str | None, host: str) -> bool:
    """Whether a client wants somebody else. One that names nobody is content with whoever it reaches."""
    try:
        return asked is not None and canonical_host(asked) != host
    except ValueError:
        return True


async def _converse(outlet: Outlet, wire: Wire, site: Site | None) -> None:
    conversation = Conversation(wire)
    try:
        while (request := await conversation.next_request()) is not None:
            if request.method == "CONNECT":
                await _connect(outlet, wire, conversation, request, site)
                break
            await exchange(outlet, wire, conversation, request, site)
    except Malformed as error:
        denial = malformed(str(error))
        outlet.deny(denial)
        if not conversation.answered:
            await conversation.refuse(error.status, denial.code, denial.reason, denial.hint)
    await conversation.linger()


async def _connect(
    outlet: Outlet, wire: Wire, conversation: Conversation, request: RequestHead, site: Site | None
) -> None:
    """A tunnel. Whether it may be is judged by what is sent through it: only there can a refusal be read."""
    try:
        if site is not None:
            raise malformed("there is no proxy behind this one")
        host, port = parse_authority(request.target, None)
    except Denied as denial:
        outlet.deny(denial, method="CONNECT")
        await conversation.refuse(400, denial.code, denial.reason, denial.hint)
        return
    await conversation.accept_tunnel()
    await _lead(outlet, wire, host, port)
