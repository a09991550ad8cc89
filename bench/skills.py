"""``python -m bench.skills``: what skills cost: a run by name, a search among 5,000, a start with them.

Pairs within one run, for this machine may be busy: each figure is the median of its pairs. Exits with 1 where a run by
name takes more than 1.15 times what the same program takes, a search more than 5 ms, or a start 50 ms longer.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import Implementation

from bench.subjects import GLOVEPORT
from gloveport.engine.skill_search import SkillSearch
from gloveport.model.skill import SkillGrant
from gloveport.skills.skill_files import make_files
from gloveport.skills.skill_library import make_library

SKILLS: Final = 5000
RUNS, SEARCHES, STARTS = 150, 200, 7
CODE: Final = "MONTH = 11  # parameter: which month\nsum(range(MONTH))\n"
WORDS: Final = ("report", "sales", "month", "invoice", "customer", "export", "sum", "stock", "price", "order")
_AGENT: Final = Implementation(name="claude-code", version="1")


def fill(state: Path) -> None:
    """Write 5,000 skills."""
    store = state / "skills"
    store.mkdir(parents=True)
    for number in range(SKILLS):
        name = f"{WORDS[number % 10]}-{WORDS[number // 10 % 10]}-{number}"
        words = " ".join(WORDS[(number * step) % 10] for step in (1, 3, 7))
        for path, data in make_files(name, f"Makes {words}.", "python", CODE, grant=SkillGrant()).items():
            file = store / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def server(state: Path, config: Path) -> StdioServerParameters:
    """A server with this state."""
    return StdioServerParameters(
        command=GLOVEPORT, args=["serve", "--config", str(config)], env={"GLOVEPORT_STATE": str(state)}
    )


async def time_call(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return time.perf_counter() - started


async def time_runs(state: Path, config: Path) -> float:
    """How many times as long a run by name takes."""
    async with Client(stdio_client(server(state, config)), client_info=_AGENT) as client:
        program = {"language": "python", "code": CODE.replace("11", "12")}
        skill = {"name": "one", "arguments": {"month": 12}}
        await client.call_tool("save_skill", {"name": "one", "description": "x", "code": CODE, "language": "python"})
        await anyio.run_process(
            [GLOVEPORT, "skills", "approve", "one", "--yes", "--config", str(config)],
            env={"GLOVEPORT_STATE": str(state), "PATH": "/usr/bin:/bin", "HOME": str(state)},
        )
        calls: list[tuple[str, dict[str, Any]]] = [("execute_code", program), ("run_skill", skill)]
        times: dict[str, list[float]] = {tool: [] for tool, _ in calls}
        for number in range(2 * RUNS):  # each is the first of every other pair
            for tool, arguments in calls[:: (1, -1)[number % 2]]:
                times[tool].append(await time_call(client, tool, arguments))
        for tool, taken in times.items():
            print(f"{statistics.median(taken) * 1000:8.2f} ms  {tool}")
        return statistics.median(times["run_skill"]) / statistics.median(times["execute_code"])


async def time_start(state: Path, config: Path) -> float:
    """Seconds until the tools are listed."""
    started = time.perf_counter()
    async with Client(stdio_client(server(state, config)), client_info=_AGENT) as client:
        await client.list_tools()
        return time.perf_counter() - started


def time_search(state: Path) -> float:
    """Seconds of the processor that a search takes, its index being there."""
    search = SkillSearch(library=make_library(state / "skills", state / "skill-records", None))
    started = time.perf_counter()
    unread = search.search("sales", 10).unread
    print(
        f"{(time.perf_counter() - started) * 1000:8.0f} ms  the first search ever, which has left {unread} for others"
    )
    while search.search("sales", 10).unread:
        pass
    another = SkillSearch(library=search.library)
    started = time.perf_counter()
    another.search("sales", 10)
    print(f"{(time.perf_counter() - started) * 1000:8.0f} ms  the first search of a further server")
    times = []
    for number in range(SEARCHES):
        started = time.thread_time()
        found = search.search(f"{WORDS[number % 10]} of a {WORDS[number // 10 % 10]}", 10)
        times.append(time.thread_time() - started)
        assert len(found.best) == 10, found.total
    return statistics.median(times)


async def main() -> int:
    """See the module."""
    with tempfile.TemporaryDirectory(prefix="gloveport-skills-", dir="/var/tmp") as directory:
        full, empty, config = Path(directory, "full"), Path(directory, "empty"), Path(directory, "gloveport.toml")
        config.write_text("")  # noqa: ASYNC240 - nothing else goes on
        ratio = await time_runs(empty, config)
        fill(full)
        search = time_search(full)
        starts: dict[Path, list[float]] = {empty: [], full: []}
        for number in range(2 * STARTS):  # each is the first of every other pair: one that ends takes time as well
            for state in (empty, full)[:: (1, -1)[number % 2]]:
                starts[state].append(await time_start(state, config))
        longer = statistics.median(starts[full]) - statistics.median(starts[empty])
    print(f"{ratio:8.2f}     times as long by name; at most 1.15")
    print(f"{search * 1000:8.2f} ms  of the processor, a search among {SKILLS}; at most 5")
    print(f"{longer * 1000:+8.0f} ms  a start with {SKILLS}; at most +50")
    return 0 if ratio <= 1.15 and search <= 0.005 and longer <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main))
