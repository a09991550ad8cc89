"""Answers what programs and agents may know of tools: search, tree, typed stubs. All of it is filtered by policy.

To tell of tools takes time by the size of what their servers say. So it is done in a thread, of all that one execution
asks at the same time one answer after the other; an answer has a size, and an execution asks so often at most. What it
is told counts as bytes that calls have brought.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

import anyio
import pydantic_core
from anyio import to_thread
from msgspec import Struct, field

from gloveport.errors import Denied, UpstreamError
from gloveport.hub.calls import Calls
from gloveport.hub.definition import Definition
from gloveport.hub.hub import Hub
from gloveport.hub.stubs import python_stubs, typescript_stubs
from gloveport.model.hub import Toolbox
from gloveport.model.json_value import JsonValue
from gloveport.policy.decisions.tools import is_visible, servers_in_words
from gloveport.policy.wording import FINAL, quote_sent
from gloveport.rpc import Asked, Handler
from gloveport.secrets.scrub import scrub_value

Detail: TypeAlias = Literal["names", "signatures", "full"]
DETAILS: tuple[Detail, ...] = get_args(Detail)

DISCOVERY_SECONDS = 1.5
"""How long a search waits for servers of which nothing is known yet."""

_DECLARED: Final = {"python": (python_stubs.module, "pyi"), "typescript": (typescript_stubs.module, "d.ts")}
_MOST_FOUND = 100
_MOST_ASKED = 1000
"""Questions of one execution."""

_MOST_TOLD_BYTES = 1 << 20
"""Of one answer; a single tool, and the declarations of a single server, are told whatever they take."""

_SUMMARY_CHARACTERS = 160


class SearchResult(Struct, frozen=True, kw_only=True):
    """What a search has found.

    Attributes:
        tools: The best first.
        total: How many there were.
        missing: Why it is not known what a server offers, by its name.
    """

    tools: Sequence[Definition]
    total: int
    missing: Mapping[str, str]


async def search(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> SearchResult:
    """Find tools by words. Servers of which nothing is known yet are asked first, for a short time.

    Args:
        hub: Where to look.
        toolbox: What may be known.
        query: Words; without any, every tool is found.
        limit: How many are wanted.
    """
    missing = await hub.discover([*toolbox.servers], DISCOVERY_SECONDS)
    tools, total = await to_thread.run_sync(_search_catalog, hub, toolbox, query, limit)
    return SearchResult(tools=tools, total=total, missing=missing)


def _search_catalog(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> tuple[Sequence[Definition], int]:
    return hub.catalog.search(query, limit, lambda tool: _is_visible(toolbox, tool))


def _is_visible(toolbox: Toolbox, tool: Definition) -> bool:
    return is_visible(toolbox, tool.server, tool.name, tool.read_only, tool.destructive)


class Discovery(Struct, kw_only=True):
    """What the programs of one execution may know of the tools."""

    hub: Hub
    calls: Calls
    _asked: int = 0
    _refused: bool = False
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    def handlers(self) -> Mapping[str, Handler]:
        """Functions of the requests that can be made on the door, by name."""
        return {
            "call": self.calls.call,
            "search": self._limit(self.search),
            "tree": self._limit(self.tree),
            "describe": self._limit(self.describe),
            "stubs": self._limit(self.stubs),
        }

    def _limit(self, handler: Handler) -> Handler:
        """The same, as often as it may be asked, without secrets in whatever comes of it."""

        async def handle(asked: Asked) -> JsonValue:
            self._require_budget()
            try:
                return await handler(asked)
            except (Denied, UpstreamError) as error:
                raise self.calls.scrub_error(error, asked) from None

        return handle

    def _require_budget(self) -> None:
        self._asked += 1
        told, most = self.calls.ledger.bytes, int(self.calls.guard.grant.limits.tool_bytes)
        if self._asked <= _MOST_ASKED and told <= most:
            return
        denial = Denied(
            "too_many_searches",
            f"A run may ask {_MOST_ASKED} times for tools, and be told {most} bytes of tools and by them.",
            hint="Ask for less: a narrower query, fewer details.",
        )
        if not self._refused:  # to fill the log must not stop it
            self._refused = True
            self.calls.guard.deny("search", denial, {})
        raise denial

    async def _in_thread(self, make: Callable[[], JsonValue]) -> JsonValue:
        def make_answer() -> tuple[JsonValue, int]:
            value = scrub_value(make(), self.calls.clean)
            return value, len(pydantic_core.to_json(value))

        async with self._turn:
            value, size = await to_thread.run_sync(make_answer)
            self.calls.ledger.bytes += size
        return value

    async def search(self, asked: Asked) -> JsonValue:
        """``{query, detail, limit}`` → ``{tools, total, missing}``, as many tools as have room."""
        query, detail, limit = asked.get("query", ""), asked.get("detail", "signatures"), asked.get("limit", 10)
        if not isinstance(query, str) or detail not in DETAILS or type(limit) is not int:
            raise Denied("malformed_search", f"A search has words, a detail of {', '.join(DETAILS)}, and a limit.")
        unasked = await self.hub.discover([*self._toolbox.servers], DISCOVERY_SECONDS)
        missing: JsonValue = [{"server": server, "reason": reason} for server, reason in sorted(unasked.items())]

        def answer() -> JsonValue:
            tools, total = _search_catalog(self.hub, self._toolbox, query, min(max(limit, 1), _MOST_FOUND))
            return {"tools": [*list_tools(self.hub, tools, detail)], "total": total, "missing": missing}

        return await self._in_thread(answer)

    async def tree(self, asked: Asked) -> JsonValue:
        """``{server?}`` → the servers, and of one the tools too."""
        own = self._own(asked)
        await self.hub.discover([*self._toolbox.servers] if own is None else [own], DISCOVERY_SECONDS)

        def branches() -> JsonValue:
            if own is None:
                return {"servers": [self._branch(name) for name in self._toolbox.servers]}
            tools: list[JsonValue] = [
                {"name": tool.name, "exposed": exposed, "summary": summary(tool)}
                for exposed, tool in self._visible(own).items()
            ]
            return {"servers": [{**self._branch(own), "tools": tools}]}

        return await self._in_thread(branches)

    async def describe(self, asked: Asked) -> JsonValue:
        """``{server, tool}`` → all that is known of it."""
        server, tool, _ = self.calls.name_call(asked)
        found = await self.calls.definition(server, tool)
        return await self._in_thread(lambda: describe_tool(self.hub, found, "full"))

    async def stubs(self, asked: Asked) -> JsonValue:
        """``{language, server?}`` → typed declarations, a file for each server."""
        own, language = self._own(asked), asked.get("language")
        if not isinstance(language, str) or language not in _DECLARED:
            raise Denied("malformed_request", f"Stubs are written in {' or '.join(_DECLARED)}.")
        servers = [own] if own else [*self._toolbox.servers]
        await self.hub.discover(servers, DISCOVERY_SECONDS)
        make, ending = _DECLARED[language]

        def make_declarations() -> JsonValue:
            files: list[JsonValue] = []
            size = 0
            for server in servers:
                state = self.hub.states[server]
                text = make(state.exposed, state.server.description, self._visible(server))
                files.append({"path": f"{state.exposed}.{ending}", "text": text})
                size += len(text)
                if size > _MOST_TOLD_BYTES and len(servers) > 1:
                    raise Denied(
                        "too_many_tools",
                        f"The declarations of all servers have more than {_MOST_TOLD_BYTES} bytes.",
                        hint=f"Ask for those of one server, or search. There are: {', '.join(servers)}.",
                    )
            return {"files": files}

        return await self._in_thread(make_declarations)

    @property
    def _toolbox(self) -> Toolbox:
        return self.calls.guard.grant.toolbox

    def _own(self, asked: Asked) -> str | None:
        """Own name of the server that is asked about; None for all of them."""
        server = asked.get("server")
        if server is None or server == "":
            return None
        own = self.calls.name_call({"server": server, "tool": ""})[0]
        if own not in self._toolbox.servers:
            raise self._unknown_server(own)
        return own

    def _unknown_server(self, server: str) -> Denied:
        hint = f"{servers_in_words(self._toolbox)} {FINAL}"
        return Denied(
            "tool_not_granted", f"There is no server {quote_sent(server)} that this program may use.", hint=hint
        )

    def _visible(self, server: str) -> dict[str, Definition]:
        """The tools of a server that may be known, by the name that each has in programs."""
        names, tools = self.hub.states[server].names, self.hub.states[server].tools
        return {
            exposed: tools[own]
            for exposed, own in names.items()
            if own in tools and _is_visible(self._toolbox, tools[own])
        }

    def _branch(self, server: str) -> dict[str, JsonValue]:
        state = self.hub.states[server]
        return {
            "name": server,
            "exposed": state.exposed,
            "description": state.server.description,
            "state": state.upstream.state,
        }


def list_tools(hub: Hub, tools: Iterable[Definition], detail: str) -> Iterator[dict[str, JsonValue]]:
    """Describe as many of the tools as an answer has room for, in this detail."""
    size = 0
    for tool in tools:
        one = describe_tool(hub, tool, detail)
        before, size = size, size + len(pydantic_core.to_json(one))
        if before and size > _MOST_TOLD_BYTES:
            return
        yield one


def describe_tool(hub: Hub, tool: Definition, detail: str) -> dict[str, JsonValue]:
    """Describe a tool in this detail."""
    state = hub.states[tool.server]
    exposed = next((exposed for exposed, own in state.names.items() if own == tool.name), tool.name)
    told: dict[str, JsonValue] = {
        "server": tool.server,
        "name": tool.name,
        "exposed_server": state.exposed,
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
    """Give the first sentence of a description, or as much of it as there is room for."""
    text = " ".join((tool.description or tool.title).split())
    first = text.split(". ", 1)[0]
    return first if len(first) <= _SUMMARY_CHARACTERS else f"{first[:_SUMMARY_CHARACTERS]}…"
