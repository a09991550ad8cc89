"""Middleware that refuses very long names of methods, tools and resources.

The SDK matches each with patterns, and repeats it in its error and in the log of it: megabytes of it take a tenth of a
second of the event loop.
"""

from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

_MOST_CHARACTERS: Final = 8192


async def limit_names(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Pass on requests whose method, name and URI are not too long."""
    params = ctx.params or {}
    named = (ctx.method, params.get("name"), params.get("uri"))
    if any(isinstance(name, str) and len(name) > _MOST_CHARACTERS for name in named):
        raise MCPError(INVALID_PARAMS, f"a name of more than {_MOST_CHARACTERS} characters is not read")
    return await call_next(ctx)
