"""Commands go on while whoever began them is heard of: in any call, also of tools that know nothing of commands."""

from dataclasses import dataclass
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from gloveport.server.caller import share_of
from gloveport.server.workspace.context import Bench


@dataclass(frozen=True)
class Hearing:
    """Middleware that hears who calls."""

    bench: Bench

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass everything on."""
        if ctx.method == "tools/call":
            self.bench.workspace.commands.see(share_of(ctx, self.bench.transport))
        return await call_next(ctx)
