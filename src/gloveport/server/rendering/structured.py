"""Leaves structured content to clients whose programs read it; a model gets an answer's content blocks.

Claude Code and Codex put nothing but the structured content before their model where an answer has any, and Codex drops
a picture beside it. So nobody gets it who has not asked: by the name that the operator lists, or in the call. Who is
told of an output schema must get it each time, so only those are told whose calls need not ask; and of an answer that
has such a schema they get no pictures, which the structured content names.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import mcp_types as wire
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from msgspec import Struct

from gloveport.server.rendering.structured_clients import reads_structured

ASK: Final = "gloveport/structured"
"""The key of a call's ``_meta`` that asks for it."""


class WireReply(Struct, frozen=True):
    """A reply in the SDK's types, for the fast path."""

    result: wire.CallToolResult

    def fields(self, *, reads_structured: bool) -> dict[str, Any]:
        """See ``fast_path.ToolReply``."""
        unread = {"result_type"} if reads_structured else {"result_type", "structured_content"}
        return self.result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=unread)


class StructuredContent(Struct, frozen=True):
    """Middleware that takes it out of the answers to all others.

    Attributes:
        clients: Patterns of the names of those who get it without asking.
        described: Names of the tools whose output has a schema, of which those are told.
    """

    clients: Sequence[str]
    described: Collection[str] = ()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the request on, and what comes back without what this client does not read."""
        result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict) and not self._is_listed(ctx):
            tools = [
                {name: value for name, value in tool.items() if name != "outputSchema"} for tool in result["tools"]
            ]
            return {**result, "tools": tools}
        if ctx.method != "tools/call":
            return result
        if isinstance(result, wire.CallToolResult):
            result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return self._reduce(ctx, result) if isinstance(result, dict) else result

    def _reduce(self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any]) -> dict[str, Any]:
        """An answer with pictures, or with structured content, or with neither."""
        if self._reads(ctx) and not _has_picture(result):
            return result
        if self._reads(ctx) and (ctx.params or {}).get("name") in self.described:  # by its schema it has to be there
            return {**result, "content": [block for block in result["content"] if block.get("type") != "image"]}
        return {name: value for name, value in result.items() if name != "structuredContent"}

    def _reads(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        meta = (ctx.params or {}).get("_meta")
        return (isinstance(meta, Mapping) and meta.get(ASK) is True) or self._is_listed(ctx)

    def _is_listed(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        # In 2026-07-28 each request says whose it is: a list of tools must not depend on the connection, nor does it.
        # Who calls without a session and a name is a script: an agent begins with a handshake.
        client = ctx.session.client_params
        return client is None or reads_structured(self.clients, client.client_info.name)


def _has_picture(result: Mapping[str, Any]) -> bool:
    return any(block.get("type") == "image" for block in result.get("content", ()))
