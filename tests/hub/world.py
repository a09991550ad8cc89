"""A whole Gloveport whose programs may use other MCP servers: it runs them, and shows what it has written down."""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import pytest
from tests import forked, shared_host
from tests.egress.world import World
from tests.far_side.listening import HOST
from tests.hub.upstreams import quick_command

from gloveport.approvals.question import Verdict
from gloveport.approvals.store import Person
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.config import Config
from gloveport.engine.run_context import RunContext
from gloveport.model import Request, Result
from gloveport.model.reading import read_value

FAR_SIDE = Path(__file__).parent.parent / "far_side"
NPM = Path(__file__).parent.parent / "npm/node_modules/.bin"
ALLOW = [{"action": "allow"}]

needs_npm = pytest.mark.skipif(
    not NPM.is_dir(), reason="tests/npm/node_modules is not there: npm ci --prefix tests/npm"
)


@contextlib.asynccontextmanager
async def opened(
    state: Path, servers: Mapping[str, dict], environ: Mapping[str, str] = {}, **config
) -> AsyncIterator[World]:
    """Serve these servers; the keys are those of the configuration file. Nothing waits ahead of need."""
    state.mkdir(exist_ok=True)
    told = {"pool": {"forked": 0, "booted": 0}, "servers": servers} | config
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    async with shared_host.assemble(
        read_value(Config, told), kept | {"GLOVEPORT_STATE": str(state)} | environ, connect_servers
    ) as engine:
        yield World(engine, state)


@contextlib.asynccontextmanager
async def allowed(world: World, code: str) -> AsyncIterator[list[Result]]:
    """Run a Python program that waits for its owner inside the context, and is allowed then. Afterwards: its result."""
    results: list[Result] = []
    desk = world.engine.desk
    more = anyio.Event()

    async def run() -> None:
        context = RunContext(asker=desk.asker(more.set))
        request = Request(language="python", code=code)
        results.append(await world.engine.execute(request, caller="x", context=context))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(30):
            await more.wait()
        (waiting,) = [one.question for one in desk.store.entries() if one.status == "pending"]
        yield results
        desk.store.answer(waiting.id, Verdict(allowed=True, by="queue"), Person(uid=0))


def npm(name: str, *arguments: str, **more) -> dict:
    """The table of a server that npm has installed, all of whose tools may be called."""
    return {"command": [str(NPM / f"mcp-server-{name}"), *arguments], "rules": ALLOW} | more


def far_side(name: str, *arguments: str, **more) -> dict:
    """The table of a server of the far side, ``mcp_NAME.py``, all of whose tools may be called."""
    return {"command": forked.command(FAR_SIDE / f"mcp_{name}.py", *arguments), "rules": ALLOW} | more


def at(port: int, path: str, **more) -> dict:
    """The table of a server that listens on a port, all of whose tools may be called."""
    return {"url": f"http://{HOST}:{port}{path}", "rules": ALLOW} | more


def tool(name: str, description: str = "does", properties: Mapping[str, dict] = {}, **annotations) -> dict:
    """A tool as a server offers it; one that only reads unless told otherwise."""
    schema = {"type": "object", "properties": properties}
    hints = annotations or {"readOnlyHint": True}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


def offers(file: Path, *tools: dict | str, **more) -> dict:
    """The table of a server that offers these, by name or in full. See ``mcp_told.py``."""
    file.write_text(json.dumps([tool(one) if isinstance(one, str) else one for one in tools]))
    return {"command": quick_command(FAR_SIDE / "mcp_told.py", str(file)), "rules": ALLOW} | more


_CODES = """
def code_of(call):
    try:
        call()
    except ToolError as error:
        return error.code
    return "ok"

[code_of(call) for call in [{calls}]]
"""


async def codes(world: World, *calls: str, **request) -> list[str]:
    """What becomes of these calls, which one Python program makes."""
    return await world.value("python", _CODES.format(calls=", ".join(f"lambda: {call}" for call in calls)), **request)


async def know_servers(world: World) -> None:
    """Wait until every server has said what it offers, or failed: a search waits for them for a moment alone."""
    await world.engine.hub.discover([*world.engine.hub.states], 60)


async def found(world: World, **request) -> list[str]:
    """The tools that a program finds, as ``server.tool``."""
    await know_servers(world)
    code = "[tool['call'].removeprefix('tools.') for tool in search_tools('', 100, 'names')]"
    return await world.value("python", code, **request)
