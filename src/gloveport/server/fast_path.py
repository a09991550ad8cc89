"""Answers calls without the SDK: to pass through it takes ten times as long as to read a short file.

Only in a session that was begun by a handshake whose results look as they do here, only for tools that need nothing of
the SDK, and only for a call that is right and asks for nothing special. Whatever is otherwise goes the usual way, and
so does whatever the tool can't do here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import mcp_types as wire
import pydantic_core
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

from gloveport.engine.caller import Caller, caller_over_stdio
from gloveport.server.rendering.structured import blocks_alone, reads_structured


def nothing() -> None:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class FastCall:
    """A call of a tool, and whose it is."""

    caller: Caller
    request: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FastAnswer:
    """What is answered, and what is left to do then, before anything else is."""

    result: wire.CallToolResult
    afterwards: Callable[[], object] = nothing


Work: TypeAlias = Callable[[], Awaitable[wire.CallToolResult]]
"""What takes a while. It raises nothing."""

FastTool: TypeAlias = Callable[[FastCall], FastAnswer | Work | None]
"""A tool; None where it can't answer here, or the arguments are not right."""

_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Their results have structured content, and nothing that is not made here."""


@dataclass(eq=False, kw_only=True)
class FastPath:
    """The shortcut of one session.

    Attributes:
        tools: By their names.
        structured: Patterns of the names of clients that get structured content.
    """

    tools: Mapping[str, FastTool]
    structured: Sequence[str] = ()
    _version: object = field(default=None, init=False)
    _caller: Caller | None = field(default=None, init=False)
    _begun: bool = field(default=False, init=False)
    _reads_structured: bool = field(default=False, init=False)

    def answer(self, message: JSONRPCMessage) -> tuple[bytes, Callable[[], object]] | Work | None:
        """The line that answers a message, and what is left to do; or the work for it; None: it goes the usual way."""
        if isinstance(message, JSONRPCNotification):
            self._begun |= message.method == "notifications/initialized"
            return None
        if not isinstance(message, JSONRPCRequest):
            return None
        params = message.params or {}
        if message.method == "initialize":
            info = params.get("clientInfo")
            self._version, self._caller = params.get("protocolVersion"), _caller(info)
            name = info.get("name") if isinstance(info, dict) else ""
            self._reads_structured = reads_structured(self.structured, str(name))
        begun = self._begun and self._version in _VERSIONS
        if not begun or self._caller is None or message.method != "tools/call":
            return None
        tool, arguments = self.tools.get(str(params.get("name"))), params.get("arguments", {})
        if tool is None or not isinstance(arguments, dict) or not params.keys() <= {"name", "arguments"}:
            return None
        answer = tool(FastCall(self._caller, str(message.id), arguments))
        if not isinstance(answer, FastAnswer):
            return None if answer is None else self._reduce_work(answer)
        try:
            line = line_of(message.id, self._reduce(answer.result))
        except BaseException:
            answer.afterwards()
            raise
        return line, answer.afterwards

    def _reduce(self, result: wire.CallToolResult) -> wire.CallToolResult:
        return result if self._reads_structured else blocks_alone(result)

    def _reduce_work(self, work: Work) -> Work:
        async def work_and_reduce() -> wire.CallToolResult:
            return self._reduce(await work())

        return work_and_reduce


def line_of(request: str | int, result: wire.CallToolResult) -> bytes:
    """The line that answers a request."""
    fields = result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"result_type"})
    return pydantic_core.to_json({"jsonrpc": "2.0", "id": request, "result": fields}) + b"\n"


def _caller(info: object) -> Caller | None:
    """Who begins a session; None where that is not said as it should be."""
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        return None
    return caller_over_stdio(f"{info['name']} {info['version']}")
