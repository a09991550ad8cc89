"""Tools from a program in Deno, through a door of a real sandbox."""

import contextlib

import anyio
import pytest
from tests.sandbox.test_doors import outcome_of

from gloveport import rpc
from gloveport.model import Grant
from gloveport.model.hub import DOOR, ServerPolicy, Toolbox
from gloveport.sandbox.plan import Network

pytestmark = pytest.mark.anyio

GRANT = Grant(languages=frozenset({"typescript"}), toolbox=Toolbox(servers={"one": ServerPolicy()}))
PROGRAM = """
const results = await Promise.all([1, 2, 3].map((n) => tools.one.twice({ n })));
const elsewhere = await Deno.connect({ hostname: "127.0.0.2", port: 3128 }).catch((error) => error.name);
({ results, elsewhere })
"""


@contextlib.asynccontextmanager
async def answering(door):
    """Answer there as the hub would; gives how many connections there were."""

    async def twice(request):
        value = 2 * request["arguments"]["n"]
        return {"kind": "structured", "value": value, "blocks": []}

    async def serve(connection):
        with connection:
            await rpc.answer({"call": twice}, rpc.Room(), connection)

    async def accept(tasks):
        while True:
            await anyio.wait_readable(door)
            connections.append(door.accept()[0])
            tasks.start_soon(serve, connections[-1])

    connections = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accept, tasks)
        yield connections
        tasks.cancel_scope.cancel()


async def test_a_program_calls_tools_through_its_door_and_reaches_nothing_else(sandboxes):
    """H2, N1: the same warm or cold; an interpreter that waits does not come to the door before its program."""
    network = Network(doors=(DOOR, ("127.0.0.2", 3128)))
    made = sandboxes("typescript", network, GRANT)
    async with made.build() as child:
        with pytest.raises(BlockingIOError):
            child.doors[0].accept()
        async with answering(child.doors[0]) as connections:
            _, value = await outcome_of(child, made.prepare(PROGRAM))
    assert value == {"results": [2, 4, 6], "elsewhere": "NotCapable"}
    assert len(connections) == 1
