"""Sends structured content only to clients whose programs read it; a model gets an answer's content blocks.

If an answer has structured content, Claude Code and Codex show their model nothing else, and Codex drops pictures. So a
client gets it only on request: by its name, which the operator lists, or in the call. A client that is shown an output
schema must get structured content each time, so only listed clients are shown one. Answers with an output schema have
no pictures for them; the structured content names the pictures.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import mcp_types as wire
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from msgspec import Struct

from gloveport.server.rendering.structured_clients import reads_structured

ASK: Final = "gloveport/structured"
"""The key of a call's ``_meta`` that requests structured content."""


class StructuredContent(Struct, frozen=True):
    """Middleware that removes structured content from the answers to all other clients.

    Attributes:
        clients: Patterns of the names of clients that get it without asking.
        described: Names of the tools with an output schema.
    """

    clients: Sequence[str]
    described: Collection[str] = ()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the request on, and remove from the answer what this client does not read."""
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
        """Keep the pictures of an answer, or its structured content, but not both."""
        if self._reads(ctx) and not _has_picture(result):
            return result
        if self._reads(ctx) and (ctx.params or {}).get("name") in self.described:  # its schema requires the content
            return {**result, "content": [block for block in result["content"] if block.get("type") != "image"]}
        return {name: value for name, value in result.items() if name != "structuredContent"}

    def _reads(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        meta = (ctx.params or {}).get("_meta")
        return (isinstance(meta, Mapping) and meta.get(ASK) is True) or self._is_listed(ctx)

    def _is_listed(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        # In 2026-07-28 each request names its client, so the list of tools does not depend on the connection.
        # A caller without session and name is a script: an agent begins with a handshake.
        client = ctx.session.client_params
        return client is None or reads_structured(self.clients, client.client_info.name)


def _has_picture(result: Mapping[str, Any]) -> bool:
    return any(block.get("type") == "image" for block in result.get("content", ()))
