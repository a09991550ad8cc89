"""Hands a session over to the SDK: replays the lines that have begun the session, then passes on all further ones."""

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
    """A context without resources."""

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
    """The client's messages as a ``ReadStream`` of the SDK.

    Attributes:
        next_line: Returns the next line for the SDK; raises ``EndOfStream``.
        replayed: Lines that have begun the session and that the SDK has not seen.
        asked: Ids of the requests to the client that it has not answered; shared with ``Answers``.
    """

    next_line: Callable[[], Awaitable[bytes]]
    write: Callable[[bytes], Awaitable[None]]
    end: Callable[[], None]
    asked: set[str | int]
    replayed: list[bytes] = field(default_factory=list)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. A line that is no message is answered here, or ends the request it answers."""
        while True:
            line = self.replayed.pop(0) if self.replayed else await self.next_line()
            message = _parse(line)
            if message is None and (answered := jsonrpc_errors.find_answered(line)) in self.asked:
                message = _parse(jsonrpc_errors.render_malformed(answered))
            if isinstance(message, wire.JSONRPCResponse | wire.JSONRPCError):
                self.asked.discard(message.id)
            answer = None
            if message is None or isinstance(message, wire.JSONRPCNotification):  # maybe a request with a malformed id
                answer = jsonrpc_errors.answer_to(line)
            if message is not None and answer is None:
                return SessionMessage(message)
            _log.warning("a line of the client, of %d bytes, is no message", len(line))
            if answer is not None:
                await self.write(answer)

    async def aclose(self) -> None:
        """Stop reading."""
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
    """The messages to the client as a ``WriteStream`` of the SDK.

    Attributes:
        answered: Ids of requests that were answered before the SDK took over.
        asked: See ``Requests``.
    """

    write: Callable[[bytes], Awaitable[None]]
    answered: set[str | int]
    asked: set[str | int]

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message, except a second answer to a request."""
        message = item.message
        if isinstance(message, wire.JSONRPCResponse | wire.JSONRPCError) and message.id in self.answered:
            self.answered.remove(message.id)
            return
        if isinstance(message, wire.JSONRPCRequest):
            self.asked.add(message.id)
        await self.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


def _parse(line: bytes) -> wire.JSONRPCMessage | None:
    """The message of a line; None if it is none. Why is not logged: the error quotes the line."""
    try:
        return wire.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
    except ValueError:
        return None


async def serve_by_sdk(server: MCPServer[Any], requests: Requests, answers: Answers) -> None:
    """Serve until the client has gone."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - the only way to streams that are not the SDK's own
    await lowlevel.run(requests, answers, lowlevel.create_initialization_options())
