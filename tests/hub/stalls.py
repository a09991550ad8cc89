"""How long the event loop stands still."""

import contextlib
import time
from collections.abc import AsyncIterator

import anyio

MOST_SECONDS = 1.0
"""Far more than it takes, and far less than it took: machines are noisy."""


@contextlib.asynccontextmanager
async def going_on() -> AsyncIterator[None]:
    """Whatever is done meanwhile, everybody else gets turns."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            began, computed = time.monotonic(), time.process_time()
            await anyio.sleep(0.005)
            # Who is held up by another process on this machine has computed nothing meanwhile.
            worst = max(worst, min(time.monotonic() - began, time.process_time() - computed))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert worst < MOST_SECONDS, f"the event loop stood still for {worst:.2f} s"
