"""Opens the doors of one execution's sandbox: outbound HTTP and TCP, and the one to tools and to a language model."""

import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from gloveport import door, rpc
from gloveport.egress.proxy.handler import answer
from gloveport.egress.session import EgressSession, Gateway
from gloveport.engine.run_context import Execution
from gloveport.hub.calls import Calls, LookUp
from gloveport.hub.discovery import Discovery
from gloveport.hub.hub import Hub
from gloveport.model.hub import DOOR
from gloveport.sampling.provider import Provider
from gloveport.sampling.sampler import Sampler
from gloveport.sandbox.base import Child


@asynccontextmanager
async def open_doors(
    run: Execution, child: Child, gateway: Gateway, hub: Hub, *, look_up: LookUp, provider: Provider | None
) -> AsyncIterator[None]:
    """Answer on the doors of this sandbox, under the grant of this run, until the context is left."""
    outbound = EgressSession(
        gateway=gateway,
        guard=run.guard,
        names=run.reach.names,
        placeholders=child.placeholders,
        redactions=run.reach.redactions,
        journal=run.journal,
    )
    doors = dict(zip(run.reach.network.doors, child.doors, strict=True))
    handlers: Mapping[str, rpc.Handler] = {}
    tools = []
    if DOOR in doors:
        tools.append(doors.pop(DOOR))
        calls = Calls(hub=hub, guard=run.guard, clean=gateway.vault.clean, look_up=look_up, ledger=run.ledger)
        sampler = Sampler(guard=run.guard, vault=gateway.vault, provider=provider, ask_client=run.context.ask_client)
        handlers = {**Discovery(hub=hub, calls=calls).handlers(), "sample": sampler.sample}
    async with (
        door.open_door([*doors.values()], functools.partial(answer, outbound)),
        door.open_door(tools, functools.partial(rpc.answer, handlers, rpc.Room())),
    ):
        yield
