"""A whole Gloveport whose programs may use other MCP servers: it runs them, and shows what it has written down."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.egress.world import World
from tests.far_side.listening import HOST

from gloveport.config import Config
from gloveport.server.app import assemble
from gloveport.server.upstreams import connected

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
    """Serve these servers; the keys are those of the configuration file. Nothing waits ahead of need but what forks."""
    state.mkdir(exist_ok=True)
    told = {"pool": {"forked": 2, "booted": 0}, "servers": servers} | config
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    async with assemble(
        Config.model_validate(told), kept | {"GLOVEPORT_STATE": str(state)} | environ, connected
    ) as engine:
        yield World(engine, state)


def npm(name: str, *arguments: str, **more) -> dict:
    """The table of a server that npm has installed, all of whose tools may be called."""
    return {"command": [str(NPM / f"mcp-server-{name}"), *arguments], "rules": ALLOW} | more


def far_side(name: str, *arguments: str, **more) -> dict:
    """The table of a server of the far side, ``mcp_NAME.py``, all of whose tools may be called."""
    return {"command": [sys.executable, str(FAR_SIDE / f"mcp_{name}.py"), *arguments], "rules": ALLOW} | more


def at(port: int, path: str, **more) -> dict:
    """The table of a server that listens on a port, all of whose tools may be called."""
    return {"url": f"http://{HOST}:{port}{path}", "rules": ALLOW} | more
