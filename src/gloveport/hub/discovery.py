"""Tells programs and agents which tools they may call: search, tree, typed stubs. The policy filters all of it.

Rendering takes time by the size of what the servers have written. So it runs in a thread, one answer at a time for each
execution. The size of an answer and the number of questions of an execution are bounded, and the bytes of the answers
count as bytes of its calls.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

import pydantic_core
from anyio import to_thread
from msgspec import Struct

from gloveport.errors import Denied, UpstreamError
from gloveport.hub.calls import Calls
from gloveport.hub.definition import Definition
from gloveport.hub.hub import Hub
from gloveport.hub.stubs import python_stubs, typescript_stubs
from gloveport.model.hub import Toolbox
from gloveport.model.json_value import JsonValue
from gloveport.policy.decisions.tools import is_visible
from gloveport.rpc import DoorRequest, Handler
from gloveport.secrets.scrub import scrub_value
from gloveport.untrusted_text import shorten

Detail: TypeAlias = Literal["names", "signatures", "full"]
DETAILS: tuple[Detail, ...] = get_args(Detail)

DISCOVERY_SECONDS = 1.5
"""How long a search waits for servers whose tools are not known yet."""

_DECLARED: Final = {"python": (python_stubs.module, "pyi"), "typescript": (typescript_stubs.module, "d.ts")}
_MOST_FOUND = 100
_MOST_REQUESTS = 1000
"""Questions of one run."""

_MOST_TOLD_BYTES = 1 << 20
"""Most bytes of one answer, unless it has a single tool, or the declarations of a single server."""

_SUMMARY_CHARACTERS = 160


class SearchResult(Struct, frozen=True, kw_only=True):
    """The result of a search.

    Attributes:
        tools: The matches, the best first.
        total: The number of all matches.
        missing: By the name of a server whose tools are not known: why not.
    """

    tools: Sequence[Definition]
    total: int
    missing: Mapping[str, str]


async def search(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> SearchResult:
    """Find tools by words; without any, every tool. Servers whose tools are not known yet are asked first, for a short
    time. The rules of ``toolbox`` say which tools may be found.
    """
    missing = await hub.discover([*toolbox.servers], DISCOVERY_SECONDS)
    tools, total = await to_thread.run_sync(_search_catalog, hub, toolbox, query, limit)
    return SearchResult(tools=tools, total=total, missing=missing)


def _search_catalog(hub: Hub, toolbox: Toolbox, query: str, limit: int) -> tuple[Sequence[Definition], int]:
    return hub.catalog.search(query, limit, lambda tool: _is_visible(toolbox, tool))


def _is_visible(toolbox: Toolbox, tool: Definition) -> bool:
    return is_visible(toolbox, tool.server, tool.name, tool.read_only, tool.destructive)


class Discovery(Struct, kw_only=True):
    """Answers the questions of one execution's programs about tools."""

    hub: Hub
    calls: Calls
    _refused: bool = False

    def handlers(self) -> Mapping[str, Handler]:
        """The handlers of requests on the door, by the name of the request."""
        return {
            "call": self.calls.call,
            "search": self._limit(self.search),
            "tree": self._limit(self.tree),
            "describe": self._limit(self.describe),
            "stubs": self._limit(self.stubs),
        }

    def _limit(self, handler: Handler) -> Handler:
        """Wrap a handler: bound the number of requests, and scrub its errors."""

        async def handle(request: DoorRequest) -> JsonValue:
            self._require_budget()
            try:
                return await handler(request)
            except (Denied, UpstreamError) as error:
                raise self.calls.scrub_error(error, request) from None

        return handle

    def _require_budget(self) -> None:
        ledger, most = self.calls.ledger, int(self.calls.guard.grant.limits.tool_bytes)
        ledger.searches += 1
        if ledger.searches <= _MOST_REQUESTS and ledger.bytes <= most:
            return
        denial = Denied(
            "too_many_searches",
            f"A run may ask {_MOST_REQUESTS} times for tools, and be told {most} bytes of tools and by them.",
            hint="Ask for less: a narrower query, fewer details.",
        )
        if not self._refused:  # logged once: nobody is to fill the log with refusals
            self._refused = True
            self.calls.guard.deny("search", denial, {})
        raise denial

    async def _in_thread(self, make: Callable[[], JsonValue]) -> JsonValue:
        def make_answer() -> tuple[JsonValue, int]:
            value = scrub_value(make(), self.calls.clean)
            return value, len(pydantic_core.to_json(value))

        async with self.calls.ledger.turn:
            value, size = await to_thread.run_sync(make_answer)
            self.calls.ledger.bytes += size
        return value

    async def search(self, request: DoorRequest) -> JsonValue:
        """``{query, detail, limit}`` → ``{tools, total, missing}``, with as many tools as fit into an answer."""
        query, detail, limit = request.get("query", ""), request.get("detail", "signatures"), request.get("limit", 10)
        if not isinstance(query, str) or detail not in DETAILS or type(limit) is not int:
            raise Denied("malformed_search", f"A search has words, a detail of {', '.join(DETAILS)}, and a limit.")
        unasked = await self.hub.discover([*self._toolbox.servers], DISCOVERY_SECONDS)
        missing: JsonValue = [{"server": server, "reason": reason} for server, reason in sorted(unasked.items())]

        def answer() -> JsonValue:
            tools, total = _search_catalog(self.hub, self._toolbox, query, min(max(limit, 1), _MOST_FOUND))
            return {"tools": [*list_tools(self.hub, tools, detail)], "total": total, "missing": missing}

        return await self._in_thread(answer)

    async def tree(self, request: DoorRequest) -> JsonValue:
        """``{server?}`` → all servers, or one with its tools."""
        own = self._own(request)
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

    async def describe(self, request: DoorRequest) -> JsonValue:
        """``{server, tool}`` → the tool in every detail."""
        server, tool, _ = self.calls.name_call(request)
        found = await self.calls.definition(server, tool)
        return await self._in_thread(lambda: describe_tool(self.hub, found, "full"))

    async def stubs(self, request: DoorRequest) -> JsonValue:
        """``{language, server?}`` → typed declarations, a file for each server."""
        own, language = self._own(request), request.get("language")
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

    def _own(self, request: DoorRequest) -> str | None:
        """Return the own name of the server that a request names; None if it names none."""
        server = request.get("server")
        if server is None or server == "":
            return None
        own = self.calls.name_call({"server": server, "tool": ""})[0]
        self.calls.require_server(own)
        return own

    def _visible(self, server: str) -> dict[str, Definition]:
        """The visible tools of a server, by their names in programs."""
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
    """Describe as many of the tools as fit into an answer, in this detail."""
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
    description: dict[str, JsonValue] = {
        "server": tool.server,
        "name": tool.name,
        "exposed_server": state.exposed,
        "exposed": exposed,
        "description": tool.description if detail == "full" else summary(tool),
    }
    if detail == "signatures":
        description["python"] = python_stubs.signature(tool, exposed)
        description["typescript"] = typescript_stubs.signature(tool, exposed)
    elif detail == "full":
        description["python"] = python_stubs.stub(tool, exposed)
        description["typescript"] = typescript_stubs.stub(tool, exposed)
        description["input_schema"] = dict(tool.input_schema)
        description["output_schema"] = None if tool.output_schema is None else dict(tool.output_schema)
    return description


def summary(tool: Definition) -> str:
    """Return the first sentence of a description, shortened if necessary."""
    text = " ".join((tool.description or tool.title).split())
    return shorten(text.split(". ", 1)[0], _SUMMARY_CHARACTERS)
