"""Calls that are answered at once, without the SDK: to pass through it takes ten times as long as to read a short file.

Only in a session that was begun by a handshake whose results look as they do here, only for tools that only read and
wait for nobody, and only for a call that is right and asks for nothing special. Whatever is otherwise goes the usual
way, and so does whatever the tool can't do at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import mcp_types as wire
import pydantic_core
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

AtOnce: TypeAlias = Callable[[Mapping[str, Any]], wire.CallToolResult | None]
"""A tool that gets the arguments of a call; None where it can't answer at once, or they are not right."""

_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Their results have structured content, and nothing that is not made here."""


@dataclass(eq=False, kw_only=True)
class Shortcut:
    """The shortcut of one session.

    Attributes:
        tools: By their names.
    """

    tools: Mapping[str, AtOnce]
    _version: object = field(default=None, init=False)
    _begun: bool = field(default=False, init=False)

    def answer(self, message: JSONRPCMessage) -> bytes | None:
        """The line that answers a message; None where it goes the usual way."""
        if isinstance(message, JSONRPCNotification):
            self._begun |= message.method == "notifications/initialized"
            return None
        if not isinstance(message, JSONRPCRequest):
            return None
        params = message.params or {}
        if message.method == "initialize":
            self._version = params.get("protocolVersion")
        if not self._begun or self._version not in _VERSIONS or message.method != "tools/call":
            return None
        tool, arguments = self.tools.get(str(params.get("name"))), params.get("arguments", {})
        if tool is None or not isinstance(arguments, dict) or not params.keys() <= {"name", "arguments"}:
            return None
        result = tool(arguments)
        if result is None:
            return None
        told = result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"result_type"})
        return pydantic_core.to_json({"jsonrpc": "2.0", "id": message.id, "result": told}) + b"\n"
