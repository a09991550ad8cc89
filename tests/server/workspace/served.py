"""A workspace that is served to a real client in the same process: by a real engine, in real sandboxes."""

import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mcp_types as wire
from mcp import Client
from msgspec.structs import replace
from tests import shared_host
from tests.http_server import serve_app

from gloveport.audit import read
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.bootstrap.workspace import open_workspace
from gloveport.config import Config
from gloveport.engine.execution import Engine
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server
from gloveport.workspace_service.service import WorkspaceService

OWNER = 54_321
"""For root, whose the workspace is: an ordinary user's."""


def owned(path: Path) -> None:
    """Give it to the owner of the workspace."""
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER, follow_symlinks=False)


@dataclass(frozen=True)
class Served:
    """The workspace, its server, and a client.

    Attributes:
        root: The workspace on the host.
        outside: A directory beside it, of the same owner.
    """

    root: Path
    outside: Path
    environ: Mapping[str, str]
    engine: Engine
    service: WorkspaceService
    client: Client

    async def call(self, tool: str, **arguments: Any) -> wire.CallToolResult:
        """Call a tool."""
        answer = await self.client.call_tool(tool, arguments)
        assert isinstance(answer, wire.CallToolResult)
        return answer

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool tells that does what it is asked."""
        answer = await self.call(tool, **arguments)
        assert not answer.is_error, answer.content
        assert answer.structured_content["ok"] is True
        return answer.structured_content

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a tool that does not."""
        answer = await self.call(tool, **arguments)
        assert answer.is_error, answer.structured_content
        assert answer.structured_content["ok"] is False
        return answer.structured_content["error"]

    async def run(self, cmd: str, **more: Any) -> dict[str, Any]:
        """What is told of a command that ends within the call."""
        told = await self.told("exec_command", cmd=cmd, **{"yield_time_ms": 30_000, **more})
        assert told["status"] != "running", told
        return told

    async def out(self, cmd: str, **more: Any) -> str:
        """What a command says that ends well."""
        told = await self.run(cmd, **more)
        assert told["exit_code"] == 0, told
        return told["stdout"]

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        """Make a file of the workspace, its owner's."""
        file = self.root / path
        for directory in reversed(file.relative_to(self.root).parents):
            if not (self.root / directory).exists():
                (self.root / directory).mkdir()
                owned(self.root / directory)
        file.write_text(text)
        file.chmod(mode)
        owned(file)
        return file

    def forget_permissions(self) -> None:
        """Let nothing be permitted, as after a start."""
        self.service.permissions._permits.clear()
        self.engine.desk._sessions.clear()

    def git(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run git on the host, as the owner of the workspace would: with all that the repository says."""
        return git(self.root, *arguments, **more)

    @contextlib.asynccontextmanager
    async def over_http(self) -> AsyncIterator[str]:
        """Serve it over HTTP as well; gives the URL."""
        config = self.service.config
        service = replace(self.service, transport="http")
        server = make_server(self.engine, config, self.environ, "http", service)
        async with serve_app(server.streamable_http_app(host="127.0.0.1")) as url:
            yield url

    def records(self) -> list[read.Record]:
        """All that is written down."""
        return [*read.records(Path(self.environ["GLOVEPORT_STATE"]) / "audit")]


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    prepare: Callable[[Path], object] = owned,
    tables: Mapping[str, Any] = MappingProxyType({}),
    environ: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> AsyncIterator[Served]:
    """Serve a new repository below this directory, when it is prepared.

    The keys are those of ``[workspace]``; ``tables`` are other tables of the configuration; ``environ`` is its owner's.
    """
    root, outside = directory / "project", directory / "outside"
    for made in (root, outside):
        made.mkdir()
        owned(made)
    git(root, "init", "-q", "-b", "main")
    prepare(root)
    async with reopened(directory, tables, environ, **settings) as one:
        yield one


@contextlib.asynccontextmanager
async def reopened(
    directory: Path,
    tables: Mapping[str, Any] = MappingProxyType({}),
    environ: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> AsyncIterator[Served]:
    """Serve the one that is there, as after another start of the server."""
    root, outside = directory / "project", directory / "outside"
    environ = {**environ, "GLOVEPORT_STATE": str(directory / "state")}
    told = {"pool": {"forked": 0, "booted": 0}, "workspace": {"mode": "dangerous", "root": str(root), **settings}}
    config = read_value(Config, {**told, **tables})
    async with (
        shared_host.assemble(config, environ, connect_servers) as engine,
        open_workspace(engine, config, environ, "stdio") as service,
    ):
        assert service is not None
        server = make_server(engine, config, environ, "stdio", service)
        async with Client(server, mode="2026-07-28") as client:
            yield Served(root, outside, environ, engine, service, client)


def git(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run git on the host in a directory. What it makes is the owner's."""
    own = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    own |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    done = subprocess.run(["git", *arguments], cwd=root, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    for directory, below, files in os.walk(root / ".git"):
        for name in (".", *below, *files):
            owned(Path(directory, name))
    return done
