"""Reports progress of one run: its output as it comes, and a sign of life while it is silent.

A slow client must not stop the run: output that it has no time for is left out here, and is in the answer.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from gloveport.server.rendering.plain_stream import PlainStream

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

HEARTBEAT_SECONDS = 5.0
"""The interval of signs of life: clients give up on a call that is silent for long."""

_PAUSE_SECONDS = 0.1
_MESSAGE_CHARACTERS = 2000


class Progress(Struct, kw_only=True):
    """Collects output and sends it on, at most ten times a second.

    Attributes:
        send: Sends the seconds since the start, a total that is always None, and a message.
    """

    send: Callable[[float, None, str], Awaitable[None]]
    _streams: dict[str, PlainStream] = field(default_factory=dict)
    _pending: str = ""
    _line: anyio.Event = field(default_factory=anyio.Event)
    _started: float = field(default_factory=time.monotonic)

    def add(self, stream: str, text: str) -> None:
        """Take a piece of output."""
        text = self._streams.setdefault(stream, PlainStream()).feed(text)
        self._pending += text
        if len(self._pending) > _MESSAGE_CHARACTERS:
            self._pending = f"[…]{self._pending[-_MESSAGE_CHARACTERS:]}"
        if "\n" in text:
            self._line.set()

    def add_step(self, what: str) -> None:
        """Report a step of the preparation, before there is any output."""
        self.add("steps", f"{what}\n")

    async def report(self) -> None:
        """Send until cancelled."""
        while True:
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                await self._line.wait()
            elapsed = time.monotonic() - self._started
            await self.send(elapsed, None, self._take() or f"running for {elapsed:.0f} s")
            await anyio.sleep(_PAUSE_SECONDS)

    def _take(self) -> str:
        """Take the complete lines; after a long silence also an incomplete one."""
        lines, newline, rest = self._pending.rpartition("\n")
        self._pending, self._line = (rest, anyio.Event()) if newline else ("", anyio.Event())
        return lines if newline else rest


@contextlib.asynccontextmanager
async def reporting(progress: Progress | None) -> AsyncIterator[None]:
    """Send progress meanwhile, if the client wants it."""
    if progress is None:
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(progress.report)
        yield
        tasks.cancel_scope.cancel()


def progress_for(ctx: "Context[Any, Any]") -> Progress | None:
    """Make the progress reports of a call; None if the client wants none."""
    has_token = "progress_token" in (ctx.request_context.meta or ())
    return Progress(send=ctx.report_progress) if has_token else None
