"""Commands go on while their client is heard of, and for a while after that."""

import math

import anyio
import pytest
from mcp import Client
from tests import shared_host
from tests.http_server import serve_app
from tests.server.workspace.served import git, owned

from gloveport.bootstrap.workspace import open_workspace
from gloveport.config import Config
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server
from gloveport.workspace.commands import registry

pytestmark = pytest.mark.anyio


async def test_any_call_keeps_commands_alive_and_silence_ends_them(tmp_path, monkeypatch):
    """W4: orphan_seconds, over HTTP, where a client goes away without a word."""
    monkeypatch.setattr(registry, "_LOOK_SECONDS", 0.05)
    root, environ = tmp_path / "project", {"GLOVEPORT_STATE": str(tmp_path / "state")}
    root.mkdir()
    owned(root)
    git(root, "init", "-q")
    workspace = {"root": str(root), "orphan_seconds": 2.0}
    config = read_value(Config, {"pool": {"forked": 0, "booted": 0}, "workspace": workspace})
    async with (
        shared_host.assemble(config, environ) as engine,
        open_workspace(engine, config, environ, "http") as service,
        serve_app(make_server(engine, config, environ, "http", service).streamable_http_app(host="127.0.0.1")) as url,
        Client(url, mode="legacy") as client,
    ):
        begun = await client.call_tool("exec_command", {"cmd": "sleep 60", "yield_time_ms": 0})
        with anyio.move_on_after(3.0):
            while True:
                await client.call_tool("list_dir", {})
                await anyio.sleep(0.1)
        (command,) = service.sandboxes.commands.all()
        assert command.id == begun.structured_content["command_id"]
        assert not command.is_over
        with anyio.fail_after(30):
            while not command.is_over:
                await command.wait_changed(1)


async def test_over_stdio_a_client_may_be_silent_as_long_as_it_is_there(served):
    """W4: when it goes the server goes, and every command with it."""
    assert served.service.sandboxes.commands.orphan_seconds == math.inf
