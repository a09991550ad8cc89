"""An engine whose programs may use a shop, clients of it, and people who answer: for tests of how clients attend."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio
import mcp_types as wire
from mcp import Client
from mcp.server import MCPServer
from tests import forked, shared_host
from tests.http_server import serve_app

from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Person as Who
from gloveport.approvals.store import Store
from gloveport.audit import read
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.engine.execution import Engine
from gloveport.model import Policy
from gloveport.model.hub import Server
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server

FAR_SIDE = Path(__file__).parent.parent / "far_side" / "mcp_shop.py"


ONE = Policy(languages=frozenset({"python"}))
"""One language, so that none other waits ahead of need."""


def accept(**content) -> wire.ElicitResult:
    """An answer to a dialog."""
    return wire.ElicitResult(action="accept", content=content)


YES, NO = accept(allow=True), accept(allow=False)
DECLINE, DISMISS = wire.ElicitResult(action="decline"), wire.ElicitResult(action="cancel")


@dataclass
class Dialogs:
    """A client's dialogs, and who answers them: with these answers in turn, the last one again and again.

    Attributes:
        read: What was put.
        withdrawn: How many were closed before they were answered.
        held: Where it is set, dialogs stay open until it is.
    """

    answers: list[Any]
    held: anyio.Event | None = None
    read: list[wire.ElicitRequestFormParams] = field(default_factory=list)
    withdrawn: int = 0
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, _context, params):
        self.read.append(params)
        self.opened.set()
        try:
            if self.held is not None:
                await self.held.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn += 1
            raise
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(params) if callable(answer) else answer


@dataclass(frozen=True)
class Shop:
    """The engine, and what it has done."""

    engine: Engine
    directory: Path
    environ: dict[str, str]

    @cached_property
    def server(self) -> MCPServer[Any]:
        """The server of all its clients."""
        return make_server(self.engine, Config(), self.environ, "stdio")

    def client(self, era, **options) -> Client:
        """A client in the same process."""
        return Client(self.server, mode=era, **options)

    def but(self, *, desk=None, **changes) -> "Shop":
        """The same engine with these changes."""
        if desk is not None:
            changes["desk"] = dataclasses.replace(self.engine.desk, **desk)
        return dataclasses.replace(self, engine=dataclasses.replace(self.engine, **changes))

    @property
    def store(self) -> Store:
        """The queue, as another process has it."""
        return Store(self.engine.desk.store.directory)

    def decide(self, question_id, *, allowed=True, scope="once") -> None:
        """Answer in the queue."""
        self.store.answer(question_id, Verdict(allowed=allowed, by="queue", scope=scope), Who(uid=0))

    def destroyed(self, name) -> int:
        """How often a thing was."""
        ledger = self.directory / "ledger"
        return ledger.read_text().splitlines().count(name) if ledger.exists() else 0

    def records(self, run_id, kind=""):
        """What is written down of a run."""
        found = read.records(Path(self.environ["GLOVEPORT_STATE"]) / "audit")
        return [one for one in found if one.fields.get("run") == run_id and one.kind.startswith(kind)]

    def records_of(self, kind):
        """What is written down of this kind, of all runs."""
        found = read.records(Path(self.environ["GLOVEPORT_STATE"]) / "audit")
        return [one for one in found if one.kind == kind]

    def last_run(self) -> str:
        """The run that was begun last."""
        found = read.records(Path(self.environ["GLOVEPORT_STATE"]) / "audit")
        return [one.fields["run"] for one in found if one.kind == "execute.admitted"][-1]

    async def asked(self, run_id=None, number=1) -> list[Question]:
        """The questions of a run, or of any, when so many wait."""
        with anyio.fail_after(30):
            while True:
                waiting = [one.question for one in self.store.entries() if one.status == "pending"]
                waiting = [one for one in waiting if run_id in {None, one.run}]
                if len(waiting) >= number:
                    return waiting
                await anyio.sleep(0.01)

    async def idle(self) -> None:
        """Until nothing runs."""
        with anyio.fail_after(30):
            while self.engine.admission.running:
                await anyio.sleep(0.01)


@contextlib.asynccontextmanager
async def opened(directory: Path, **settings) -> AsyncIterator[Shop]:
    """Assemble an engine as configured, with the shop as its only server."""
    environ = {"GLOVEPORT_STATE": str(directory / "state")}
    servers = {"shop": Server(command=forked.command(FAR_SIDE, str(directory / "ledger")))}
    config = read_value(
        Config, {"servers": servers, "pool": PoolSettings(forked=0, booted=0), "policy": ONE, **settings}
    )
    async with shared_host.assemble(config, environ, connect_servers) as engine:
        yield Shop(engine, directory, environ)


@contextlib.asynccontextmanager
async def serving(shop: Shop) -> AsyncIterator[str]:
    """Serve over HTTP; gives the URL."""
    server = make_server(shop.engine, Config(), shop.environ, "http")
    async with serve_app(server.streamable_http_app(host="127.0.0.1")) as url:
        yield url


async def execute(client, code, **arguments):
    """Run a Python program."""
    return await client.call_tool("execute_code", {"language": "python", "code": code, **arguments})


def said(result) -> dict[str, Any]:
    """The structured content of an answer about a run."""
    assert not result.is_error, result.content[0].text
    return result.structured_content
