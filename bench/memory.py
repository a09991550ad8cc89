"""What a server holds in memory: resident (RSS) where one process is meant, proportional (PSS) where several are.

Resident memory counts a page in each process that has mapped it; summed over forks of one another it would count the
same page many times. Proportional memory counts it once, divided among them.
"""

import json
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import anyio
from mcp import Client

from bench.measure import Footprint, Unavailable, reached
from bench.processes import below, has_mapped, pss_bytes, rss_bytes, sandboxes, settled
from bench.programs import ASYNCIO, PANDAS, PYTHON, TYPESCRIPT, Program, packages
from bench.subjects import call, fill_pool, served

_MIB = 1 << 20
_PANDAS = "/pandas/"
_CALLERS = 4
_GLANCES = 20
_GLANCE_SECONDS = 0.1

Reading: TypeAlias = Callable[[str, int], Awaitable[float]]
"""Takes the address and the process of an idle server; returns bytes."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A case of memory: a reading of a server that has just been started and has come to rest.

    Attributes:
        languages: Those that the server runs, all when empty: what waits is then of one kind.
    """

    name: str
    read: Reading
    languages: tuple[str, ...] = ()
    goal: str | None = None

    async def measure(self, scratch: Path) -> Footprint:
        """See ``bench.measure.Case``."""
        configuration = f"[policy]\nlanguages = {json.dumps(self.languages)}\n" if self.languages else ""
        async with served(scratch, configuration) as (url, pid):
            await settled()
            mib = await self.read(url, pid) / _MIB
        return Footprint(name=self.name, mib=round(mib, 2), goal=self.goal, holds=reached(self.goal, mib))


async def server(_: str, pid: int) -> float:
    """Resident memory of the server process alone."""
    return rss_bytes(pid)


async def tree(_: str, pid: int) -> float:
    """Proportional memory of the server and all below it."""
    return pss_bytes([pid, *below(pid)])


async def tree_under_load(url: str, pid: int) -> float:
    """The same, the most that is seen while several callers run one program after the other."""
    seen = []
    async with Client(url) as client, anyio.create_task_group() as tasks:
        run = call(client, PYTHON)

        async def caller() -> None:
            while True:
                await run()

        for _ in range(_CALLERS):
            tasks.start_soon(caller)
        for _ in range(_GLANCES):
            await anyio.sleep(_GLANCE_SECONDS)
            seen.append(await tree(url, pid))
        tasks.cancel_scope.cancel()
    return max(seen)


async def waiting_python(url: str, pid: int) -> float:
    """Proportional memory of a sandbox that waits for a Python program."""
    await _fill_pool(url, PYTHON, ASYNCIO)
    return _median([pids for pids in sandboxes(pid) if not has_mapped(pids, _PANDAS)])


async def waiting_python_with_pandas(url: str, pid: int) -> float:
    """The same of those that have imported the packages of the extra ``data`` ahead of need."""
    packages()
    await _fill_pool(url, PANDAS)
    return _median([pids for pids in sandboxes(pid) if has_mapped(pids, _PANDAS)])


async def waiting_deno(url: str, pid: int) -> float:
    """Proportional memory of a sandbox in which a Deno waits."""
    await _fill_pool(url, TYPESCRIPT)
    return _median(sandboxes(pid))


async def _fill_pool(url: str, *programs: Program) -> None:
    async with Client(url) as client:
        await fill_pool(call(client, program) for program in programs)
    await settled()


def _median(waiting: Sequence[Sequence[int]]) -> float:
    if not waiting:
        raise Unavailable("no such sandbox waits ahead of need", "configure the server to keep some")
    return statistics.median(pss_bytes(pids) for pids in waiting)
