"""The workspace: its tools against those of coding-tools-mcp, over stdio, by one small client, on like repositories.

Each server has a copy of its own. Every answer is looked at: one that is wrong counts for nothing.
"""

import contextlib
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.installed import installed
from bench.line_client import LineClient, connected
from bench.measure import Case, Contender, Duel, Footprint, Sample, WrongAnswer, reached
from bench.processes import forget_peak, peak_rss_bytes, settled
from bench.subjects import GLOVEPORT

_PACKAGE, _VERSION = "coding-tools-mcp", "0.5.0"
_MODULES = 38
_MODULE = '''\
"""Module {number} of the warehouse."""

from dataclasses import dataclass

LIMIT = 0


@dataclass
class Shelf{number}:
    """Where things of kind {number} lie."""

    row: int
    place: int

    def weight_of(self, items):
        """All of them together, in grams."""
        return sum(item.grams * item.count for item in items)
{more}
'''
_MORE = '''
    def has_room_{number}(self, items):
        """Whether more would fit."""
        return self.weight_of(items) < LIMIT * {number}
'''
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "init.defaultBranch=main")

_FLOODS = 16
_FLOOD_SECONDS = 5.0
_FLOOD = "yes 0123456789abcdefghijklmnopqrstuvwxyz"
_FLOODED_BYTES = 4 << 20
"""The least that each of them must have said: more than anybody keeps of it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One tool, and the proof that it did its work.

    Attributes:
        arguments: Of the call of this number; both servers are asked the same.
        is_right: Whether the answer is.
    """

    tool: str
    arguments: Callable[[int], Mapping[str, Any]]
    is_right: Callable[[Mapping[str, Any]], bool]


def repository(directory: Path) -> None:
    """A small repository: 41 files, one of them changed and one untracked."""
    source = directory / "warehouse"
    source.mkdir(parents=True)
    (directory / ".gitignore").write_text("*.log\n__pycache__/\n")
    (directory / "README.md").write_text("# Warehouse\n\nWhat lies where.\n")
    for number in range(_MODULES):
        more = "".join(_MORE.format(number=other) for other in range(number, number + 7))
        (source / f"shelf_{number:02}.py").write_text(_MODULE.format(number=number, more=more))
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Warehouse")):
        subprocess.run([*_GIT, *arguments], cwd=directory, check=True)
    (directory / "README.md").write_text("# Warehouse\n\nWhat lies where, and how much of it.\n")
    (directory / "notes.txt").write_text("Look at shelf 7.\n")


@contextlib.contextmanager
def gloveport(scratch: Path) -> Iterator[LineClient]:
    """``gloveport serve`` with such a workspace, and else the defaults."""
    place, config = scratch / "ours", scratch / "gloveport.toml"
    repository(place)
    config.write_text("")
    command = [GLOVEPORT, "serve", "--config", str(config), "--workspace", str(place)]
    with connected(command, {"GLOVEPORT_STATE": str(scratch / "state")}, scratch / "ours.log") as client:
        yield client


def ours(task: Task) -> Contender:
    """Gloveport."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        with gloveport(scratch) as client:
            await settled()  # its pool is full
            yield _asking(client, task)

    return opened


def theirs(task: Task) -> Contender:
    """coding-tools-mcp with its defaults, but for what it tells its makers."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        program = await installed(_PACKAGE, _VERSION, _PACKAGE)
        place = scratch / "theirs"
        repository(place)
        variables = {"CODING_TOOLS_MCP_TELEMETRY": "off", "DO_NOT_TRACK": "1"}
        variables["CODING_TOOLS_MCP_RUNTIME_ROOT"] = str(scratch / "runtime")
        with connected([program, "--stdio", "--workspace", str(place)], variables, scratch / "theirs.log") as client:
            yield _asking(client, task)

    return opened


def _asking(client: LineClient, task: Task) -> Sample:
    calls = 0

    def ask() -> float:
        nonlocal calls
        arguments = task.arguments(calls)
        calls += 1
        started = time.perf_counter()
        told = client.call(task.tool, arguments)
        took = (time.perf_counter() - started) * 1000
        if not task.is_right(told):
            raise WrongAnswer(f"{task.tool}: {str(told)[:1000]}")
        return took

    async def sample() -> float:
        return statistics.median([ask() for _ in range(_BURST)])

    return sample


@dataclass(frozen=True, kw_only=True)
class Floods:
    """A case of memory: the most that the server process holds while many commands print as fast as they can."""

    name: str
    goal: str

    async def measure(self, scratch: Path) -> Footprint:
        """See ``bench.measure.Case``."""
        with gloveport(scratch) as client:
            await settled()
            forget_peak(client.pid)
            begun = [client.call("exec_command", {"cmd": _FLOOD, "yield_time_ms": 0}) for _ in range(_FLOODS)]
            until = time.monotonic() + _FLOOD_SECONDS
            while time.monotonic() < until:  # somebody reads along, as much as one may ask for
                for command in begun:
                    asked = {"command_id": command["command_id"], "yield_time_ms": 0, "max_output_bytes": 1 << 20}
                    client.call("write_stdin", asked)
            said = [self._ended(client, command["command_id"]) for command in begun]
            mib = peak_rss_bytes(client.pid) / (1 << 20)
        if min(said) < _FLOODED_BYTES:
            raise WrongAnswer(f"the floods have said {said} bytes")
        return Footprint(name=self.name, mib=round(mib, 2), goal=self.goal, holds=reached(self.goal, mib))

    def _ended(self, client: LineClient, command: str) -> int:
        """End it: how many bytes it has said."""
        client.call("kill_command", {"command_id": command, "signal": "KILL"})
        page = client.call("read_output", {"output_ref": f"command:{command}:stdout"})
        return int(page["total_stream_bytes"])


def _patch(number: int) -> Mapping[str, Any]:
    lines = f" from dataclasses import dataclass\n \n-LIMIT = {number}\n+LIMIT = {number + 1}\n"
    return {"patch": f"*** Begin Patch\n*** Update File: warehouse/shelf_07.py\n@@\n{lines}*** End Patch\n"}


_BURST: Final = 10
"""Calls one after the other, of which the median is a sample: an agent's come in bursts."""

_TASKS: Final = {
    "workspace-exec": (
        Task(
            tool="exec_command",
            arguments=lambda _: {"cmd": "true"},
            is_right=lambda told: (told["status"], told["exit_code"]) == ("exited", 0),
        ),
        "<= 0.20",
    ),
    "workspace-read": (
        Task(
            tool="read_file",
            arguments=lambda _: {"path": "warehouse/shelf_07.py"},
            is_right=lambda told: "class Shelf7:" in told["content"] and not told["truncated"],
        ),
        "<= 0.9",
    ),
    "workspace-search": (
        Task(
            tool="search_text",
            arguments=lambda _: {"query": "has_room_20"},
            is_right=lambda told: (
                sorted(match["path"] for match in told["matches"])  # ripgrep by several threads has no order
                == [f"warehouse/shelf_{number:02}.py" for number in range(14, 21)]
            ),
        ),
        "<= 0.9",
    ),
    "workspace-patch": (
        Task(
            tool="apply_patch",
            arguments=_patch,
            is_right=lambda told: (told["additions"], told["removals"], told["already_applied"]) == (1, 1, False),
        ),
        "<= 0.9",
    ),
    "workspace-git": (
        Task(
            tool="git_status",
            arguments=lambda _: {},
            is_right=lambda told: [entry["path"] for entry in told["entries"]] == ["README.md", "notes.txt"],
        ),
        "<= 0.6",
    ),
}

CASES: Final[tuple[Case, ...]] = (
    *(
        Duel(name=name, subject=ours(task), baseline=f"{_PACKAGE} {_VERSION}", opponent=theirs(task), goal=goal)
        for name, (task, goal) in _TASKS.items()
    ),
    Floods(name="workspace-floods", goal="<= 114.4"),  # 120 MB
)
