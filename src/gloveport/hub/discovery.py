"""What an execution, or an agent, may know of the tools: search, tree, typed stubs. All of it is filtered by policy.

To tell of tools may take a second, by the size of what their servers say, and nothing counts how often a program asks.
So it is done in a thread, and of all that one execution asks at the same time one answer after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

import anyio
from anyio import to_thread
from pydantic import JsonValue

from gloveport.errors import Denied, UpstreamError
from gloveport.hub.calls import Calls
from gloveport.hub.definition import Definition
from gloveport.hub.hub import Hub
from gloveport.hub.results import scrubbed
from gloveport.hub.stubs import python as python_stubs
from gloveport.hub.stubs import typescript as typescript_stubs
from gloveport.model.hub import Toolbox
from gloveport.policy.tools import is_visible
from gloveport.policy.wording import FINAL
from gloveport.rpc import Asked, Handler

Detail: TypeAlias = Literal["names", "signatures", "full"]
DETAILS: tuple[Detail, ...] = get_args(Detail)

LEARNING_SECONDS = 1.5
"""How long a search waits for servers of which nothing is known yet."""

_DECLARED: Final = {"python": (python_stubs.module, "pyi"), "typescript": (typescript_stubs.module, "d.ts")}
_MOST_FOUND = 100
_SUMMARY_CHARACTERS = 160


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search has found.

    Attributes:
        tools: The best first.
        total: How many there were.
        missing: Why it is not known what a server offers, by its name.
    """

    tools: Sequence[Definition]
    total: int
    missing: Mapping[str, str]


async def search(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> Found:
    """Find tools by words. Servers of which nothing is known yet are asked first, for a short time.

    Args:
        hub: Where to look.
        toolbox: What may be known.
        query: Words; without any, every tool is found.
        limit: How many are wanted.
    """
    missing = await hub.learn([*toolbox.servers], LEARNING_SECONDS)
    tools, total = _found(hub, toolbox, query, limit)
    return Found(tools=tools, total=total, missing=missing)


def _found(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> tuple[Sequence[Definition], int]:
    return hub.catalog.search(query, limit, lambda tool: _is_visible(toolbox, tool))


def _is_visible(toolbox: Toolbox, tool: Definition) -> bool:
    return is_visible(toolbox, tool.server, tool.name, tool.read_only, tool.destructive)


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """What the programs of one execution may know of the tools."""

    hub: Hub
    calls: Calls
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    def handlers(self) -> Mapping[str, Handler]:
        """What can be asked on the door."""
        return {
            "call": self.calls.call,
            "search": self._cleaned(self.search),
            "tree": self._cleaned(self.tree),
            "describe": self._cleaned(self.describe),
            "stubs": self._cleaned(self.stubs),
        }

    def _cleaned(self, handler: Handler) -> Handler:
        """The same, without secrets in whatever comes of it."""

        async def handle(asked: Asked) -> JsonValue:
            try:
                return await handler(asked)
            except (Denied, UpstreamError) as error:
                raise self.calls.cleaned(error) from None

        return handle

    async def _in_thread(self, make: Callable[[], JsonValue]) -> JsonValue:
        return await to_thread.run_sync(lambda: scrubbed(make(), self.calls.clean))

    async def search(self, asked: Asked) -> JsonValue:
        """``{query, detail, limit}`` → ``{tools, total, missing}``."""
        query, detail, limit = asked.get("query", ""), asked.get("detail", "signatures"), asked.get("limit", 10)
        if not isinstance(query, str) or detail not in DETAILS or type(limit) is not int:
            raise Denied("malformed_search", f"A search has words, a detail of {', '.join(DETAILS)}, and a limit.")
        unasked = await self.hub.learn([*self._toolbox.servers], LEARNING_SECONDS)
        missing: JsonValue = [{"server": server, "reason": reason} for server, reason in sorted(unasked.items())]

        async with self._turn:
            tools, total = _found(self.hub, self._toolbox, query, min(max(limit, 1), _MOST_FOUND))
            told = await self._in_thread(lambda: [described(self.hub, tool, detail) for tool in tools])
        return {"tools": told, "total": total, "missing": scrubbed(missing, self.calls.clean)}

    async def tree(self, asked: Asked) -> JsonValue:
        """``{server?}`` → the servers, and of one the tools too."""
        own = self._own(asked)
        await self.hub.learn([*self._toolbox.servers] if own is None else [own], LEARNING_SECONDS)

        def branches() -> JsonValue:
            if own is None:
                return {"servers": [self._branch(name) for name in self._toolbox.servers]}
            tools: list[JsonValue] = [
                {"name": tool.name, "exposed": exposed, "summary": summary(tool)}
                for exposed, tool in self._visible(own).items()
            ]
            return {"servers": [{**self._branch(own), "tools": tools}]}

        async with self._turn:
            return await self._in_thread(branches)

    async def describe(self, asked: Asked) -> JsonValue:
        """``{server, tool}`` → all that is known of it."""
        server, tool, _ = self.calls.named(asked)
        found = await self.calls.definition(server, tool)
        async with self._turn:
            return await self._in_thread(lambda: described(self.hub, found, "full"))

    async def stubs(self, asked: Asked) -> JsonValue:
        """``{language, server?}`` → typed declarations, a file for each server."""
        own, language = self._own(asked), asked.get("language")
        if not isinstance(language, str) or language not in _DECLARED:
            raise Denied("malformed_request", f"Stubs are written in {' or '.join(_DECLARED)}.")
        servers = [own] if own else [*self._toolbox.servers]
        await self.hub.learn(servers, LEARNING_SECONDS)
        make, ending = _DECLARED[language]
        files: list[JsonValue] = []
        async with self._turn:
            for server in servers:
                shelf = self.hub.shelves[server]
                text = await to_thread.run_sync(make, shelf.exposed, shelf.server.description, self._visible(server))
                files.append({"path": f"{shelf.exposed}.{ending}", "text": self.calls.clean(text)})
        return {"files": files}

    @property
    def _toolbox(self) -> Toolbox:
        return self.calls.guard.grant.toolbox

    def _own(self, asked: Asked) -> str | None:
        """Own name of the server that is asked about; None for all of them."""
        server = asked.get("server")
        if server is None or server == "":
            return None
        own = self.calls.named({"server": server, "tool": ""})[0]
        if own not in self._toolbox.servers:
            raise self._unknown_server(own)
        return own

    def _unknown_server(self, server: str) -> Denied:
        names = ", ".join(sorted(self._toolbox.servers))
        return Denied("tool_not_granted", f"There is no server {server!a}.", hint=f"There are: {names}. {FINAL}")

    def _visible(self, server: str) -> dict[str, Definition]:
        """The tools of a server that may be known, by the name that each has in programs."""
        names, tools = self.hub.shelves[server].names, self.hub.shelves[server].tools
        return {
            exposed: tools[own]
            for exposed, own in names.items()
            if own in tools and _is_visible(self._toolbox, tools[own])
        }

    def _branch(self, server: str) -> dict[str, JsonValue]:
        shelf = self.hub.shelves[server]
        return {
            "name": server,
            "exposed": shelf.exposed,
            "description": shelf.server.description,
            "state": shelf.upstream.state,
        }


def described(hub: Hub, tool: Definition, detail: str) -> dict[str, JsonValue]:
    """A tool as a search tells of it, in this detail."""
    shelf = hub.shelves[tool.server]
    exposed = next((exposed for exposed, own in shelf.names.items() if own == tool.name), tool.name)
    told: dict[str, JsonValue] = {
        "server": tool.server,
        "name": tool.name,
        "exposed_server": shelf.exposed,
        "exposed": exposed,
        "description": tool.description if detail == "full" else summary(tool),
    }
    if detail == "signatures":
        told["python"] = python_stubs.signature(tool, exposed)
        told["typescript"] = typescript_stubs.signature(tool, exposed)
    elif detail == "full":
        told["python"] = python_stubs.stub(tool, exposed)
        told["typescript"] = typescript_stubs.stub(tool, exposed)
        told["input_schema"] = dict(tool.input_schema)
        told["output_schema"] = None if tool.output_schema is None else dict(tool.output_schema)
    return told


def summary(tool: Definition) -> str:
    """The first sentence of a description, or as much of it as there is room for."""
    text = " ".join((tool.description or tool.title).split())
    first = text.split(". ", 1)[0]
    return first if len(first) <= _SUMMARY_CHARACTERS else f"{first[:_SUMMARY_CHARACTERS]}…"
