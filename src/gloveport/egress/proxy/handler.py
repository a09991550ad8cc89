"""Answers connections on the doors of an execution: finds the destination and the protocol of each.

At the proxy door the program names the destination. At the transparent door the local address determines it: each
granted name has its own loopback address in the sandbox. TLS of programs ends here.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import anyio

from gloveport.egress.databases.postgres import serve_postgres
from gloveport.egress.databases.redis import serve_redis
from gloveport.egress.http.heads import Malformed, RequestHead
from gloveport.egress.http.server import ServerConnection
from gloveport.egress.outbound_session import EgressSession
from gloveport.egress.proxy.exchange import serve_request
from gloveport.egress.proxy.request import Site, parse_authority, refuse_malformed
from gloveport.egress.sandbox_network import PROXY
from gloveport.egress.transport.stream import SocketStream
from gloveport.egress.tunnel import admit_connection, serve_tunnel
from gloveport.errors import Denied
from gloveport.model.egress import Api, Connect, ConnectionScheme, Egress
from gloveport.policy.hosts.authorities import canonical_host, find, is_address

_HANDSHAKE = b"\x16"  # TLS record type
_SILENT_SECONDS = 5.0
"""How long a client may be silent where nothing is granted: MySQL's waits until the server speaks."""

_Serve: TypeAlias = Callable[[EgressSession, SocketStream, str, Api, str, int], Awaitable[None]]
_SERVE: Mapping[ConnectionScheme, _Serve] = {
    "tcp": serve_tunnel,
    "postgres": serve_postgres,
    "redis": serve_redis,
}


async def answer(session: EgressSession, sock: socket.socket) -> None:
    """Serve one connection until it ends, and close it.

    Raises:
        OSError: The connection broke.
        AuditError: The audit log can't be written.
    """
    wire = SocketStream(sock, session.load.turns.pass_on)
    with contextlib.closing(wire):
        session.require_connection()
        address, port = wire.local_address
        if (address, port) == PROXY:
            await _serve_http(session, wire, None)
        else:
            await _serve_place(session, wire, session.names.get(address, address), port)


async def _serve_place(session: EgressSession, wire: SocketStream, host: str, port: int) -> None:
    """Serve a connection to one destination: a database, a granted tunnel, or else HTTP."""
    for scheme, serve in _SERVE.items():
        if found := find(session.guard.grant.egress, scheme, host, port):
            await serve(session, wire, *found, host, port)
            return
    may_be_granted = _may_grant_http(session.guard.grant.egress, host, port)
    first = b"\0"
    with anyio.move_on_after(None if may_be_granted else _SILENT_SECONDS):
        first = await wire.peek()
    if not may_be_granted and first != _HANDSHAKE and first and not first.isalpha():
        with contextlib.suppress(Denied):  # it speaks no HTTP, in which it could be answered
            async with admit_connection(session, "", Connect(host=host, port=port)):
                pass
        return
    if first != _HANDSHAKE:
        await _serve_http(session, wire, Site("http", host, port))
        return
    await wire.answer_tls(session.gateway.authority.context(host))
    if _names_another(wire.asked_name, host):
        denial = Denied("names_disagree", f"The connection leads to {host}, and TLS names another place.")
        session.deny(denial, url=f"https://{host}:{port}")
        return
    await _serve_http(session, wire, Site("https", host, port))


def _may_grant_http(egress: Egress, host: str, port: int) -> bool:
    """Whether there can be a request to this place that is allowed."""
    is_named = find(egress, "https", host, port) or find(egress, "http", host, port)
    return is_named is not None or (egress.yolo and not is_address(host))


def _names_another(server_name: str | None, host: str) -> bool:
    """Whether a TLS client asks for another host. One that names none accepts any."""
    try:
        return server_name is not None and canonical_host(server_name) != host
    except ValueError:
        return True


async def _serve_http(session: EgressSession, wire: SocketStream, site: Site | None) -> None:
    connection = ServerConnection(wire)
    try:
        while (request := await connection.next_request()) is not None:
            if request.method == "CONNECT":
                await _open_tunnel(session, wire, connection, request, site)
                break
            await serve_request(session, wire, connection, request, site)
    except Malformed as error:
        denial = refuse_malformed(str(error))
        session.deny(denial)
        if not connection.answered:
            await connection.refuse(error.status, denial.code, denial.reason, denial.hint)
    await connection.linger()


async def _open_tunnel(
    session: EgressSession, wire: SocketStream, connection: ServerConnection, request: RequestHead, site: Site | None
) -> None:
    """Accept a CONNECT. What is sent through the tunnel is decided instead: clients hide the refusal of a CONNECT."""
    try:
        if site is not None:
            raise refuse_malformed("there is no proxy behind this one")
        host, port = parse_authority(request.target, None)
    except Denied as denial:
        session.deny(denial, method="CONNECT")
        await connection.refuse(400, denial.code, denial.reason, denial.hint)
        return
    await connection.accept_tunnel()
    await _serve_place(session, wire, host, port)
