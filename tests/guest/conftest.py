"""A host that answers programs' calls of tools on a real socket as the server does, with handlers of the tests' own."""

import contextlib
import functools
import socket
from dataclasses import dataclass, field

import anyio
import pytest

from gloveport import door, rpc
from gloveport.errors import Denied, UpstreamError

PIXEL = "iVBORw0KGgo="
SCHEMA = {
    "type": "object",
    "properties": {
        "body": {"type": ["string", "null"]},
        "title": {"type": "string"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer"},
        "dry_run": {"type": "boolean"},
        "x-trace": {"type": "string"},
    },
    "required": ["title"],
}
STUB = 'def create_issue(*, title: str, body: str | None = ...) -> dict: ...\n    """Create an issue."""\n'
ISSUE = {"server": "github", "name": "create-issue", "exposed_server": "github", "exposed": "create_issue"}
TOLD = {
    "names": {**ISSUE, "description": "Create an issue."},
    "signatures": {**ISSUE, "description": "Create an issue.", "python": STUB.splitlines()[0], "typescript": ""},
    "full": {
        **ISSUE,
        "description": "Create an issue. In any repository.",
        "python": STUB,
        "typescript": "",
        "input_schema": SCHEMA,
        "output_schema": None,
    },
}
TREE = {"name": "github", "exposed": "github", "description": "Issues and code", "state": "ready"}
BLOCKS = [
    {"type": "text", "text": "two files"},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "ä", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "file:///b", "blob": PIXEL}},
    {"type": "resource_link", "uri": "file:///c", "name": "c"},
]


def text(value):
    """An answer of one text."""
    return {"kind": "text", "value": value, "blocks": [{"type": "text", "text": value}]}


@dataclass
class Host:
    """What the program is answered, and what it has asked: ``(operation, request)``."""

    address: str = ""
    asked: list = field(default_factory=list)
    connections: int = 0
    met: int = 0
    all_met: anyio.Event = field(default_factory=anyio.Event)

    def handlers(self):
        """By operation."""
        answers = (self.call, self.tree, self.describe, self.search, self.stubs, self.sample)
        return {answer.__name__: functools.partial(self.note, answer) for answer in answers}

    async def note(self, answer, asked):
        """Remember what was asked, and answer."""
        self.asked.append({name: value for name, value in asked.items() if name != "id"})
        return await answer(asked)

    async def call(self, asked):
        tool = asked["tool"].rpartition("__")[2].replace("-", "_")
        if not hasattr(self, f"tool_{tool}"):
            raise Denied("unknown_tool", f"There is no tool {tool!a}.", hint="There are: create_issue.")
        return await getattr(self, f"tool_{tool}")(asked["arguments"])

    async def tool_create_issue(self, arguments):
        return {"kind": "structured", "value": arguments, "blocks": [{"type": "text", "text": "created"}]}

    async def tool_json(self, _arguments):
        return {"kind": "json", "value": [1, {"a": None}], "blocks": [{"type": "text", "text": '[1,{"a":null}]'}]}

    async def tool_text(self, arguments):
        return text(arguments.get("text", "line 1\nline 2"))

    async def tool_blocks(self, _arguments):
        return {"kind": "blocks", "value": None, "blocks": BLOCKS}

    async def tool_fail(self, _arguments):
        raise UpstreamError("tool_error", "the repository is archived", hint="It takes: title (string, required).")

    async def tool_meet(self, arguments):
        """Answer when as many calls are here as are said to come together."""
        self.met += 1
        if self.met == arguments["together"]:
            self.all_met.set()
        await self.all_met.wait()
        return text(str(arguments["number"]))

    async def tool_met(self, _arguments):
        """How many have asked to meet."""
        return text(str(self.met))

    async def tool_never(self, _arguments):
        await anyio.sleep_forever()

    async def tree(self, asked):
        if asked.get("server") is None:
            return {"servers": [TREE, {**TREE, "name": "my-files", "exposed": "my_files", "description": ""}]}
        self.require(asked["server"])
        tools = [
            {"name": "create-issue", "exposed": "create_issue", "summary": "Create an issue."},
            {"name": "json", "exposed": "json", "summary": ""},
        ]
        return {"servers": [{**TREE, "tools": tools}]}

    async def describe(self, asked):
        self.require(asked["server"] or asked["tool"].split("__")[1])
        if asked["tool"].rpartition("__")[2].replace("-", "_") != "create_issue":
            return {**TOLD["full"], "name": asked["tool"], "input_schema": {}}
        return TOLD["full"]

    def require(self, server):
        if server != "github":
            raise Denied("tool_not_granted", f"There is no server {server!a}.", hint="There are: github.")

    async def search(self, asked):
        tools = [TOLD[asked["detail"]]][: asked["limit"]]
        return {"tools": tools, "total": 7, "missing": [{"server": "slow", "reason": "starting"}]}

    async def stubs(self, asked):
        ending = {"python": "pyi", "typescript": "d.ts"}[asked["language"]]
        return {"files": [{"path": f"github.{ending}", "text": f"{asked['language']}\n"}]}

    async def sample(self, asked):
        if asked["max_tokens"] > 5000:
            raise Denied("too_many_tokens", "A run may spend 5000 tokens.", hint="Ask for less.")
        said = f"{asked['model']}|{asked['system']}|{asked['messages'][-1]['content']}"
        return {"text": said, "model": "m", "stop_reason": "end", "tokens": 5}


@pytest.fixture
async def host():
    """A host that listens on loopback."""
    made = Host()

    async def answer(connection):
        made.connections += 1
        await rpc.answer(made.handlers(), rpc.Room(), connection)

    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as listener:
        listener.setblocking(False)  # noqa: FBT003 - the socket's own interface
        made.address = "{}:{}".format(*listener.getsockname())
        async with door.open_door([listener], answer):
            yield made
