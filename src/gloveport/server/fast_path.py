"""Answers calls without the SDK: to pass through it takes ten times as long as to read a short file.

Only in a session that was begun by a handshake whose results look as they do here, or for a request that says all of
its client itself; only for tools that need nothing of the SDK, and only for a call that is right and asks for nothing
special. Whatever is otherwise goes the usual way, and so does whatever the tool can't do here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import pydantic_core
from msgspec import Struct, field

from gloveport.engine.caller import Caller, caller_over_stdio
from gloveport.server.rendering.structured_clients import reads_structured
from gloveport.server.server_offer import PREFIX, STATELESS, stateless_members

HANDSHAKES: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions whose results have structured content, and nothing that is not made here."""

_OURS: Final = ("gloveport/", PREFIX)
"""What names in the ``_meta`` of a call begin with that mean something to whoever answers it."""

_VERSION, _INFO, _CAPABILITIES = (f"{PREFIX}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities"))
_ENVELOPE: Final = {_VERSION, _INFO, _CAPABILITIES}
"""What a request says of its client where there was no handshake."""


def nothing() -> None:
    """Nothing is left to do."""


async def unheard(_line: bytes) -> None:
    """Nobody hears of it."""


class ClientMessage(Struct, frozen=True):
    """A request, or a notification where ``id`` is None, as it came: of a shape that can be answered here."""

    method: str
    params: Mapping[str, Any]
    id: str | int | None = None


class ToolReply(Protocol):
    """What a tool has answered."""

    def fields(self, *, reads_structured: bool) -> dict[str, Any]:
        """The result of the request, as JSON has it, for a client that reads structured content or does not."""


class FastCall(Struct, frozen=True):
    """A call of a tool, and whose it is.

    Attributes:
        progress_token: By which the client is told of progress; None where it does not want to be.
        notify: Sends a line before the answer.
    """

    caller: Caller
    request: str
    arguments: Mapping[str, Any]
    progress_token: str | int | None = None
    notify: Callable[[bytes], Awaitable[None]] = unheard


class FastAnswer(Struct, frozen=True):
    """What is answered, and what is left to do then, before anything else is."""

    result: ToolReply
    afterwards: Callable[[], object] = nothing


class Recipient(Struct, frozen=True):
    """Whoever has sent a request, and how it is answered.

    Attributes:
        reads_structured: Whether it gets structured content.
        more: What each result has besides what the tool says.
    """

    caller: Caller
    reads_structured: bool
    more: Mapping[str, Any] = {}


Work: TypeAlias = Callable[[], Awaitable[ToolReply]]
"""What takes a while. It raises nothing."""

FastTool: TypeAlias = Callable[[FastCall], FastAnswer | Work | None]
"""A tool; None where it can't answer here, or the arguments are not right."""

LineWork: TypeAlias = Callable[[], Awaitable[bytes]]
"""Makes the line that answers."""


class FastPath(Struct, eq=False, kw_only=True):
    """The shortcut of one session.

    Attributes:
        tools: By their names.
        structured: Patterns of the names of clients that get structured content.
        notify: Sends a line.
        reads_structured: Whether this client gets it.
    """

    tools: Mapping[str, FastTool] = field(default_factory=dict)
    structured: Sequence[str] = ()
    notify: Callable[[bytes], Awaitable[None]] = unheard
    reads_structured: bool = field(default=False)
    _version: object = field(default=None)
    _caller: Caller | None = field(default=None)
    _begun: bool = field(default=False)
    _is_greeted: bool = field(default=False)
    """Whether a handshake was tried: then all that comes belongs to its session."""

    @property
    def can_answer(self) -> bool:
        """Whether a session goes on that can be answered here."""
        return self._begun and self._version in HANDSHAKES and self._caller is not None

    def note_handshake(self, message: ClientMessage) -> None:
        """Take note of how a session begins."""
        if message.method == "initialize":
            self._is_greeted = True
            info = message.params.get("clientInfo")
            self._version, self._caller = message.params.get("protocolVersion"), _caller(info)
            name = info.get("name") if isinstance(info, dict) else ""
            self.reads_structured = reads_structured(self.structured, str(name))
        elif message.method == "notifications/initialized" and message.id is None:
            self._begun = True

    def answer(self, message: ClientMessage) -> tuple[bytes, Callable[[], object]] | LineWork | None:
        """The line that answers a call, and what is left to do; or the work for it; None: it goes the usual way."""
        params, request = message.params, message.id
        if request is None or message.method != "tools/call":
            return None
        tool, arguments, meta = (
            self.tools.get(str(params.get("name"))),
            params.get("arguments", {}),
            params.get("_meta"),
        )
        if tool is None or not isinstance(arguments, dict) or not params.keys() <= {"name", "arguments", "_meta"}:
            return None
        meta = params.get("_meta") or {}
        if not isinstance(meta, dict) or (client := self._find_client(meta)) is None:
            return None
        token = meta.get("progressToken")
        if isinstance(token, bool) or not isinstance(token, str | int | None):
            return None
        answer = tool(FastCall(client.caller, str(request), arguments, token, self.notify))
        if not isinstance(answer, FastAnswer):
            return None if answer is None else _render_later(request, client, answer)
        try:
            line = _render(request, client, answer.result)
        except BaseException:
            answer.afterwards()
            raise
        return line, answer.afterwards

    def _find_client(self, meta: Mapping[str, Any]) -> Recipient | None:
        """Who has sent a request with this ``_meta``; None where it can't be answered here."""
        special = {name for name in meta if str(name).startswith(_OURS)}
        if self.can_answer and self._caller is not None:
            return None if special else Recipient(self._caller, self.reads_structured)
        if self._is_greeted or special != _ENVELOPE or meta[_VERSION] != STATELESS or "progressToken" in meta:
            return None
        info = meta[_INFO]
        caller = _caller(info) if is_plain_client(info, meta[_CAPABILITIES]) else None
        if caller is None:
            return None
        return Recipient(caller, reads_structured(self.structured, info["name"]), stateless_members())


def _render(request: str | int, client: Recipient, reply: ToolReply) -> bytes:
    return line_of(request, {**reply.fields(reads_structured=client.reads_structured), **client.more})


def _render_later(request: str | int, client: Recipient, work: Work) -> LineWork:
    async def work_and_render() -> bytes:
        return _render(request, client, await work())

    return work_and_render


def is_plain_client(info: object, capabilities: object) -> bool:
    """Whether the SDK would take what a client says of itself as it is."""
    return (
        isinstance(info, dict)
        and all(isinstance(info.get(name), str) for name in ("name", "version"))
        and isinstance(capabilities, dict)
        and all(isinstance(one, dict) for one in capabilities.values())
    )


def without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that were given. Clients that convert schemas to strict ones send all there are: null is none."""
    return {name: value for name, value in given.items() if value is not None}


def line_of(request: str | int, result: Mapping[str, Any]) -> bytes:
    """The line that answers a request."""
    return pydantic_core.to_json({"jsonrpc": "2.0", "id": request, "result": result}) + b"\n"


def _caller(info: object) -> Caller | None:
    """Who begins a session; None where that is not said as it should be."""
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        return None
    return caller_over_stdio(f"{info['name']} {info['version']}")
