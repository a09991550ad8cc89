"""A granted TCP connection, passed on unseen: whatever is said on it is between the program and the far side."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio

from gloveport.egress.messages import Route
from gloveport.egress.outlet import Outlet
from gloveport.egress.wire import Wire
from gloveport.errors import Denied, UpstreamError
from gloveport.guard import Ending
from gloveport.model.egress import Api, Connect


@dataclass(kw_only=True)
class Count:
    """Bytes that went out, and that came in."""

    sent: int = 0
    received: int = 0


async def tunnel(outlet: Outlet, wire: Wire, name: str, api: Api, host: str, port: int) -> None:
    """Connect a program to a place that ``api`` grants, until both have ended. What can't be reached is closed.

    Raises:
        OSError: The program's end broke.
        AuditError: It can't be written down.
    """
    with contextlib.suppress(Denied, UpstreamError):
        async with admit_connection(outlet, name, Connect(host=host, port=port)) as (_, count):
            route = Route(api=name, scheme="http", host=host, port=port, networks=api.networks, addresses=api.addresses)
            await join(wire, await outlet.gateway.upstreams.connect(route), count)


@contextlib.asynccontextmanager
async def admit_connection(outlet: Outlet, name: str, action: Connect) -> AsyncIterator[tuple[Ending, Count]]:
    """Let a program have a connection for as long as the context lasts, and tell of it in the log and in its answer.

    Args:
        outlet: The way out of the execution that asks.
        name: Of the API that it goes to.
        action: What has to be decided.

    Raises:
        Denied: It is refused.
        AuditError: It can't be written down.
    """
    code = reason = None
    count = Count()
    try:
        outlet.require_budget()
        async with outlet.guard.admit(action) as ending:
            ending.fields["api"] = name
            try:
                yield ending, count
            finally:
                ending.fields.update(sent_bytes=count.sent, received_bytes=count.received)
    except (Denied, UpstreamError) as error:
        code, reason = error.code, outlet.said(error)
        raise
    finally:
        url = f"{action.scheme}://{action.host}:{action.port}"
        outlet.journal.add(method="CONNECT", url=url, code=code, reason=reason)


async def join(near: Wire, far: Wire, count: Count) -> None:
    """Pass on what each end sends, until both have ended, or one has broken and what it had sent before is passed on.

    Args:
        near: The program's end.
        far: The far side's; closed here.
        count: Where it is counted.
    """

    async def send() -> None:
        with contextlib.suppress(OSError):
            async for size in _passed(near, far):
                count.sent += size
            return
        tasks.cancel_scope.cancel()

    with contextlib.closing(far):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            with contextlib.suppress(OSError):
                async for size in _passed(far, near):
                    count.received += size
                return
            tasks.cancel_scope.cancel()


async def _passed(source: Wire, sink: Wire) -> AsyncIterator[int]:
    """Pass on what a source sends, until it ends or the sink is broken; the size of each piece.

    Raises:
        OSError: The source is broken.
    """
    while data := await source.receive():
        try:
            await sink.send(data)
        except OSError:  # what it has sent before it broke may still be on its way
            return
        yield len(data)
    sink.finish()
