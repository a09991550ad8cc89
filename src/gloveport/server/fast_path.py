"""Answers calls of tools without the SDK, which takes ten times as long as reading a short file.

A call is answered here only in a session with a handshake of a known version, or if the request itself describes its
client completely; only if the tool needs nothing of the SDK; and only if the call is valid and uses no extension. The
SDK answers all others, and those that the tool can't answer here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pydantic_core
from msgspec import Struct, field

from gloveport.engine.caller import Caller, caller_over_stdio
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.structured_clients import reads_structured
from gloveport.server.server_offer import PREFIX, STATELESS, stateless_members

HANDSHAKES: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions whose results have structured content, and no fields that are not made here."""

_OURS: Final = ("gloveport/", PREFIX)
"""Prefixes of the names in a call's ``_meta`` that affect its answer."""

_VERSION, _INFO, _CAPABILITIES = (f"{PREFIX}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities"))
_ENVELOPE: Final = {_VERSION, _INFO, _CAPABILITIES}
"""The fields that describe the client in a request without a handshake."""


def nothing() -> None:
    """Do nothing: the default for work after an answer."""


async def unheard(_line: bytes) -> None:
    """Drop a notification: the default where no client can receive it."""


class ClientMessage(Struct, frozen=True):
    """A request, or a notification if ``id`` is None, of a shape that can be answered here."""

    method: str
    params: Mapping[str, Any]
    id: str | int | None = None


class FastCall(Struct, frozen=True):
    """A call of a tool, and its caller.

    Attributes:
        progress_token: The client's token for progress notifications; None if it wants none.
        notify: Sends a notification before the answer.
    """

    caller: Caller
    request: str
    arguments: Mapping[str, Any]
    progress_token: str | int | None = None
    notify: Callable[[bytes], Awaitable[None]] = unheard


class FastAnswer(Struct, frozen=True):
    """An answer, and what is to be done right after it is sent, before the next message."""

    result: RunReply
    afterwards: Callable[[], object] = nothing


class Recipient(Struct, frozen=True):
    """The sender of a request, and how to answer it.

    Attributes:
        reads_structured: Whether it gets structured content.
        more: Fields that every result to it has besides the tool's.
    """

    caller: Caller
    reads_structured: bool
    more: Mapping[str, Any] = {}


Work: TypeAlias = Callable[[], Awaitable[RunReply]]
"""A call that takes a while. It does not raise."""

FastTool: TypeAlias = Callable[[FastCall], FastAnswer | Work | None]
"""A tool for the fast path; it returns None for a call that the SDK has to answer, as one with wrong arguments."""

LineWork: TypeAlias = Callable[[], Awaitable[bytes]]
"""Work that ends with the line that answers a request."""


class FastPath(Struct, eq=False, kw_only=True):
    """The fast path of one session.

    Attributes:
        structured: Patterns of the names of clients that get structured content.
        reads_structured: Whether this session's client gets structured content.
    """

    tools: Mapping[str, FastTool] = field(default_factory=dict)
    structured: Sequence[str] = ()
    notify: Callable[[bytes], Awaitable[None]] = unheard
    reads_structured: bool = field(default=False)
    _version: object = field(default=None)
    _caller: Caller | None = field(default=None)
    _is_initialized: bool = field(default=False)
    _is_greeted: bool = field(default=False)
    """Whether a handshake was tried: then every later message belongs to its session."""

    @property
    def can_answer(self) -> bool:
        """Whether a handshake has begun a session that can be answered here."""
        return self._is_initialized and self._version in HANDSHAKES and self._caller is not None

    def note_handshake(self, message: ClientMessage) -> None:
        """Note the messages of a handshake."""
        if message.method == "initialize":
            self._is_greeted = True
            info = message.params.get("clientInfo")
            self._version, self._caller = message.params.get("protocolVersion"), _caller(info)
            name = info.get("name") if isinstance(info, dict) else ""
            self.reads_structured = reads_structured(self.structured, str(name))
        elif message.method == "notifications/initialized" and message.id is None:
            self._is_initialized = True

    def answer(self, message: ClientMessage) -> tuple[bytes, Callable[[], object]] | LineWork | None:
        """Return the line that answers a call, and what to do after it; or work for it; or None: the SDK answers."""
        params, request = message.params, message.id
        if request is None or message.method != "tools/call":
            return None
        tool, arguments = self.tools.get(str(params.get("name"))), params.get("arguments", {})
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
        """Find the sender of a request by its ``_meta``; None if the SDK has to answer."""
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


def _render(request: str | int, client: Recipient, reply: RunReply) -> bytes:
    return line_of(request, {**reply.fields(reads_structured=client.reads_structured), **client.more})


def _render_later(request: str | int, client: Recipient, work: Work) -> LineWork:
    async def work_and_render() -> bytes:
        return _render(request, client, await work())

    return work_and_render


def is_plain_client(info: object, capabilities: object) -> bool:
    """Whether the SDK would accept a client's info and capabilities unchanged."""
    return (
        isinstance(info, dict)
        and all(isinstance(info.get(name), str) for name in ("name", "version"))
        and isinstance(capabilities, dict)
        and all(isinstance(one, dict) for one in capabilities.values())
    )


def without_nulls(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Drop arguments that are null: clients with strict schemas send every parameter, and null for those not given."""
    return {name: value for name, value in arguments.items() if value is not None}


def line_of(request: str | int, result: Mapping[str, Any]) -> bytes:
    """Write the line that answers a request."""
    return pydantic_core.to_json({"jsonrpc": "2.0", "id": request, "result": result}) + b"\n"


def _caller(info: object) -> Caller | None:
    """Read the caller from a client's info; None if the info is malformed."""
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        return None
    return caller_over_stdio(f"{info['name']} {info['version']}")
