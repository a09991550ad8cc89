"""Opens the doors of one execution's sandbox: outbound HTTP and TCP, and the one to tools and to a language model."""

import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from gloveport import door, rpc
from gloveport.egress.outbound_session import EgressSession, Gateway
from gloveport.engine.run_context import Execution
from gloveport.late_module import late_module
from gloveport.model.hub import DOOR
from gloveport.sandbox.base import Child

if TYPE_CHECKING:
    from gloveport.egress.proxy import handler
    from gloveport.hub import calls, discovery
    from gloveport.hub.calls import LookUp
    from gloveport.hub.hub import Hub
    from gloveport.sampling import sampler
    from gloveport.sampling.provider import Provider
else:
    handler = late_module("gloveport.egress.proxy.handler")
    calls = late_module("gloveport.hub.calls")
    discovery = late_module("gloveport.hub.discovery")
    sampler = late_module("gloveport.sampling.sampler")


def open_doors(
    run: Execution, child: Child, gateway: Gateway, hub: "Hub", *, look_up: "LookUp", provider: "Provider | None"
) -> AbstractAsyncContextManager[None]:
    """Answer on the doors of this sandbox, under the grant of this run, until the context is left."""
    return _open_doors(run, child, gateway, hub, look_up, provider) if child.doors else nullcontext()


@asynccontextmanager
async def _open_doors(
    run: Execution, child: Child, gateway: Gateway, hub: "Hub", look_up: "LookUp", provider: "Provider | None"
) -> AsyncIterator[None]:
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
        tool_calls = calls.Calls(
            hub=hub, guard=run.guard, clean=gateway.vault.clean, look_up=look_up, ledger=run.ledger
        )
        questions = sampler.Sampler(
            guard=run.guard, vault=gateway.vault, provider=provider, ask_client=run.context.ask_client
        )
        handlers = {**discovery.Discovery(hub=hub, calls=tool_calls).handlers(), "sample": questions.sample}
    async with (
        door.open_door([*doors.values()], functools.partial(handler.answer, outbound)),
        door.open_door(tools, functools.partial(rpc.answer, handlers, rpc.Room())),
    ):
        yield
