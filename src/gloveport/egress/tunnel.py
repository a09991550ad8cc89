"""A granted TCP connection, passed on unseen: whatever is said on it is between the program and the far side."""

import contextlib
from dataclasses import dataclass

import anyio

from gloveport.egress.messages import Route
from gloveport.egress.outlet import Outlet
from gloveport.egress.wire import Wire
from gloveport.errors import Denied, UpstreamError
from gloveport.model.egress import Api, Connect


@dataclass(kw_only=True)
class _Count:
    sent: int = 0
    received: int = 0


async def tunnel(outlet: Outlet, wire: Wire, name: str, api: Api, host: str, port: int) -> None:
    """Connect a program to a place that ``api`` grants, until both have ended. What can't be reached is closed.

    Raises:
        OSError: The program's end broke.
        AuditError: It can't be written down.
    """
    code = reason = None
    count = _Count()
    try:
        outlet.require_budget()
        async with outlet.guard.admit(Connect(host=host, port=port)) as ending:
            ending.fields["api"] = name
            try:
                route = Route(
                    api=name, scheme="http", host=host, port=port, networks=api.networks, addresses=api.addresses
                )
                far = await outlet.gateway.upstreams.connect(route)
                await _join(wire, far, count)
            finally:
                ending.fields.update(sent_bytes=count.sent, received_bytes=count.received)
    except (Denied, UpstreamError) as error:
        code, reason = error.code, outlet.said(error)
    finally:
        outlet.journal.add(method="CONNECT", url=f"tcp://{host}:{port}", code=code, reason=reason)


async def _join(near: Wire, far: Wire, count: _Count) -> None:
    """Pass on what each end sends, until both have ended or one has broken."""

    async def send() -> None:
        with contextlib.suppress(OSError):
            while data := await near.receive():
                await far.send(data)
                count.sent += len(data)
            far.finish()
            return
        tasks.cancel_scope.cancel()

    with contextlib.closing(far):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            with contextlib.suppress(OSError):
                while data := await far.receive():
                    await near.send(data)
                    count.received += len(data)
                near.finish()
                return
            tasks.cancel_scope.cancel()
