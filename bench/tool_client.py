"""Calls the tool by the MCP SDK's own client, and prints milliseconds: ``tool_client.py SERVER single|parallel``."""

import statistics
import sys
import time

import anyio
from mcp import Client, StdioServerParameters

CALLS = 200
PARALLEL = 100


async def main() -> None:
    """See the module."""
    server, mode = sys.argv[1:]
    target = StdioServerParameters(command=sys.executable, args=[server])
    async with Client(target) as client:

        async def call(number: int) -> None:
            result = await client.call_tool("echo", {"text": str(number)})
            assert result.content[0].text == str(number)

        if mode == "parallel":
            await call(0)
            started = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for number in range(PARALLEL):
                    tasks.start_soon(call, number)
            print((time.perf_counter() - started) * 1000)
            return
        times = []
        for number in range(CALLS):
            started = time.perf_counter()
            await call(number)
            times.append((time.perf_counter() - started) * 1000)
        print(statistics.median(times))


anyio.run(main)
