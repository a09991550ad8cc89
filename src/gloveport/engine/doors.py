"""Opens the doors of one execution's sandbox: to outbound HTTP and TCP, and to tools, skills and a model."""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from gloveport import door, rpc
from gloveport.egress.outbound_session import EgressSession, Gateway
from gloveport.engine.run_context import Execution
from gloveport.errors import Denied
from gloveport.late_module import late_module
from gloveport.model.hub import DOOR
from gloveport.model.json_value import JsonValue
from gloveport.policy.wording import FINAL
from gloveport.sandbox.base import Child

if TYPE_CHECKING:
    from gloveport.egress.proxy import handler
    from gloveport.engine.skill_calls import SkillCalls
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


_OPERATIONS: Final = ("call", "search", "tree", "describe", "stubs", "sample", "run_skill", "skills", "describe_skill")
"""All operations that a program may request, if they are granted."""


@asynccontextmanager
async def open_doors(
    run: Execution,
    child: Child,
    gateway: Gateway,
    hub: "Hub",
    *,
    look_up: "LookUp",
    provider: "Provider | None",
    skills: "SkillCalls | None",
) -> AsyncIterator[None]:
    """Answer on the doors of this sandbox under the run's grant, as long as the context lasts."""
    if not child.doors:
        yield
        return
    outbound = EgressSession(
        gateway=gateway,
        guard=run.guard,
        names=run.reach.names,
        placeholders=child.placeholders,
        journal=run.journal,
        load=run.outbound_load,
    )
    doors = dict(zip(run.reach.network.doors, child.doors, strict=True))
    handlers: dict[str, rpc.Handler] = dict.fromkeys(_OPERATIONS, _refuse)
    tools = []
    if DOOR in doors:
        tools.append(doors.pop(DOOR))
    if tools and run.reach.has_tools:
        tool_calls = calls.Calls(
            hub=hub, guard=run.guard, clean=gateway.vault.clean, look_up=look_up, ledger=run.ledger
        )
        questions = sampler.Sampler(
            guard=run.guard,
            vault=gateway.vault,
            provider=provider,
            ask_client=run.context.ask_client,
            usage=run.sampling_usage,
        )
        handlers |= {**discovery.Discovery(hub=hub, calls=tool_calls).handlers(), "sample": questions.sample}
    if tools and skills is not None:
        handlers |= skills.handlers()
    async with (
        door.open_door([*doors.values()], lambda connection: handler.answer(outbound, connection)),  # imported then
        door.open_door(tools, functools.partial(rpc.answer, handlers, rpc.Room())),
    ):
        yield


async def _refuse(request: rpc.DoorRequest) -> JsonValue:
    """The handler for operations that the run was not granted."""
    operation = str(request["op"])
    what = "are no skills" if "skill" in operation else "is no model" if operation == "sample" else "are no servers"
    raise Denied("not_granted", f"There {what} here that this program may use.", hint=FINAL)
