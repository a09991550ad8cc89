"""Tunnels a granted TCP connection: its bytes are relayed without inspection, and counted."""

import contextlib
from collections.abc import AsyncIterator

import anyio
from msgspec import Struct

from gloveport.egress.outbound_session import EgressSession
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import Denied, UpstreamError
from gloveport.guard import Ending
from gloveport.model.egress import Api, Connect


class Count(Struct, kw_only=True):
    """Counts of sent and received bytes."""

    sent: int = 0
    received: int = 0


async def serve_tunnel(session: EgressSession, wire: SocketStream, name: str, api: Api, host: str, port: int) -> None:
    """Connect a program to a destination that ``api`` grants, until both have ended. If it can't be reached, close.

    Raises:
        OSError: The program's connection broke.
        AuditError: The audit log can't be written.
    """
    with contextlib.suppress(Denied, UpstreamError):
        async with admit_connection(session, name, Connect(host=host, port=port)) as (_, count):
            route = Route.to(name, api, "http", host, port)
            await join(wire, await session.gateway.upstreams.dialer.connect(route), count)


@contextlib.asynccontextmanager
async def admit_connection(session: EgressSession, name: str, action: Connect) -> AsyncIterator[tuple[Ending, Count]]:
    """Decide on a connection to the API ``name``, and record it in the audit log and the run's answer when the context
    is left.

    Raises:
        Denied: The connection is refused.
        AuditError: The audit log can't be written.
    """
    code = reason = None
    count = Count()
    try:
        session.require_budget()
        async with session.guard.admit(action) as ending:
            ending.fields["api"] = name
            try:
                yield ending, count
            finally:
                ending.fields.update(sent_bytes=count.sent, received_bytes=count.received)
    except (Denied, UpstreamError) as error:
        code, reason = error.code, session.explain(error)
        raise
    finally:
        url = f"{action.scheme}://{action.host}:{action.port}"
        session.journal.add(method="CONNECT", url=url, code=code, reason=reason)


async def join(near: SocketStream, far: SocketStream, count: Count) -> None:
    """Relay bytes in both directions, until both ends have ended, or one has broken and its last bytes are relayed.
    Closes ``far``, the server's connection.
    """

    async def send() -> None:
        with contextlib.suppress(OSError):
            async for size in _pass_on(near, far):
                count.sent += size
            return
        tasks.cancel_scope.cancel()

    with contextlib.closing(far):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            with contextlib.suppress(OSError):
                async for size in _pass_on(far, near):
                    count.received += size
                return
            tasks.cancel_scope.cancel()


async def _pass_on(source: SocketStream, sink: SocketStream) -> AsyncIterator[int]:
    """Pass on the source's bytes, until it ends or the sink breaks; yield the size of each piece.

    Raises:
        OSError: The source broke.
    """
    while data := await source.receive():
        try:
            await sink.send(data)
        except OSError:  # the sink broke; what it has sent before may still be on its way
            return
        yield len(data)
    sink.finish()
