"""Hands a session over to the SDK: what it was begun with is said again, and whatever comes from then on goes there."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as wire
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage

from gloveport.server.transports import jsonrpc_errors

_log = logging.getLogger(__name__)


class _Context:
    """A context that holds nothing of its own."""

    async def aclose(self) -> None:
        """Nothing to do."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        await self.aclose()


@dataclass(kw_only=True)
class Requests(_Context):
    """What the client sends, message by message: a ``ReadStream`` of the SDK.

    Attributes:
        next_line: The next line that is for the SDK; raises ``EndOfStream``.
        write: Sends a line.
        said: Lines with which the session has begun, which the SDK has not heard.
        end: Have done with the client.
    """

    next_line: Callable[[], Awaitable[bytes]]
    write: Callable[[bytes], Awaitable[None]]
    end: Callable[[], None]
    said: list[bytes] = field(default_factory=list)

    async def receive(self) -> SessionMessage | Exception:
        """The next message. What is none is answered here."""
        while True:
            line = self.said.pop(0) if self.said else await self.next_line()
            try:
                message = wire.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            except ValueError:  # which would say what the line holds
                _log.warning("a line of the client, of %d bytes, is no message", len(line))
                if (answer := jsonrpc_errors.answer_to(line)) is not None:
                    await self.write(answer)
                continue
            return SessionMessage(message)

    async def aclose(self) -> None:
        """Have done with the client."""
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


@dataclass(kw_only=True)
class Answers(_Context):
    """What the client is sent, one line a message: a ``WriteStream`` of the SDK.

    Attributes:
        write: Sends a line.
        answered: Ids of requests that the client has an answer to.
    """

    write: Callable[[bytes], Awaitable[None]]
    answered: set[str | int]

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message, but to what was answered before."""
        message = item.message
        if isinstance(message, wire.JSONRPCResponse | wire.JSONRPCError) and message.id in self.answered:
            self.answered.remove(message.id)
            return
        await self.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


async def serve_by_sdk(server: MCPServer[Any], requests: Requests, answers: Answers) -> None:
    """Serve until the client has gone."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - the only way to streams that are not the SDK's own
    await lowlevel.run(requests, answers, lowlevel.create_initialization_options())
