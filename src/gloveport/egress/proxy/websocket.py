"""Relays a WebSocket: each message is redacted on its way to the server and scrubbed on its way back.

A secret is found across the frames of one message; text that is held back goes with the last frame. It is not found
across messages, since each has to be passed on when it is complete: a program's output is scrubbed once more.
"""

import contextlib
import time
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Collection

import anyio
from msgspec import Struct, field
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from gloveport.egress.outbound_session import OwnText
from gloveport.egress.transport.stream import SocketStream
from gloveport.fairness import Pace
from gloveport.secrets.scrub import Finder, Needles, Scrubber, scrub
from gloveport.secrets.vault import Vault

_UTF8 = getincrementaldecoder("utf-8")
_CLOSING_SECONDS = 5.0
_MOST_OF_A_REASON = 120  # bytes: what a control frame holds, less the code


class WebSocketRelay(Struct, kw_only=True):
    """One WebSocket.

    Attributes:
        vault: The secrets to scrub from incoming messages, those included that are resolved meanwhile.
        redactions: The strings to redact from outgoing messages.
        own_text: The secrets that the program has itself sent, which stay; None where all are scrubbed.
        sent_bytes, received_bytes: Bytes of outgoing and incoming messages.
        found: Names of the secrets that were scrubbed.
    """

    vault: Vault
    redactions: Needles
    own_text: OwnText | None
    sent_bytes: int = 0
    received_bytes: int = 0
    found: set[str] = field(default_factory=set)

    async def run(self, near: SocketStream, far: SocketStream, ahead: bytes) -> None:
        """Relay messages between the program and the server until one end has closed or broken; close ``far``, the
        server's, then. The server has sent ``ahead`` already.
        """
        program, server = Connection(ConnectionType.SERVER), Connection(ConnectionType.CLIENT)
        server.receive_data(ahead)
        own = self.own_text
        outward = _Direction(
            barred=lambda: self.redactions,
            source=near,
            incoming=program,
            sink=far,
            outgoing=server,
            finder=own.finder if own is not None and self.vault.needles else None,
        )
        inward = _Direction(
            barred=lambda: self.vault.needles,
            source=far,
            incoming=server,
            sink=near,
            outgoing=program,
            own=(lambda: own.names) if own is not None else tuple,
        )
        ended: list[_Direction] = []

        async def pass_on(direction: _Direction) -> None:
            await direction.pass_on()
            ended.append(direction)
            if direction.at_sink and len(ended) == 1:  # leave time for the last messages of the other direction
                tasks.cancel_scope.deadline = anyio.current_time() + _CLOSING_SECONDS
            else:
                tasks.cancel_scope.cancel()

        try:
            with contextlib.closing(far):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(pass_on, outward)
                    tasks.start_soon(pass_on, inward)
        finally:
            self.sent_bytes, self.received_bytes, self.found = outward.passed_bytes, inward.passed_bytes, inward.found


class _Direction(Struct, kw_only=True):
    """One direction.

    Attributes:
        barred: Returns the strings to scrub at this moment.
        own: Returns the names of secrets that may pass all the same.
        finder: Makes the finder that has to see each message before it is passed on.
        at_sink: Whether the direction ended by a close frame, or by an error of the sink, which may still have sent
            messages.
    """

    barred: Callable[[], Needles]
    source: SocketStream
    incoming: Connection
    sink: SocketStream
    outgoing: Connection
    own: Callable[[], Collection[str]] = tuple
    finder: Callable[[], Finder] | None = None
    passed_bytes: int = 0
    found: set[str] = field(default_factory=set)
    at_sink: bool = False
    _scrubber: Scrubber | None = None
    _decoder: IncrementalDecoder = field(default_factory=_UTF8)
    _finder: Finder | None = None

    async def pass_on(self) -> None:
        """Pass on the source's messages, until it closes, or either end breaks."""
        pace = Pace()
        with contextlib.suppress(OSError, LocalProtocolError, RemoteProtocolError):
            while True:
                began = time.monotonic()
                for event in self.incoming.events():
                    data = self.outgoing.send(self._scrub_event(event))
                    await pace.rest(began)
                    self.at_sink = True
                    await self.sink.send(data)
                    self.at_sink = isinstance(event, CloseConnection)
                    if self.at_sink:
                        return
                    began = time.monotonic()
                data = await self.source.receive()
                if not data:
                    return
                self.incoming.receive_data(data)

    def _scrub_event(self, event: Event) -> Event:
        """Scrub an event."""
        if isinstance(event, TextMessage):
            data = event.data.encode()
            self.passed_bytes += len(data)
            text = self._decoder.decode(self._scrub_part(data, event.message_finished), final=event.message_finished)
            return TextMessage(data=text, message_finished=event.message_finished)
        if isinstance(event, BytesMessage):
            self.passed_bytes += len(event.data)
            part = self._scrub_part(bytes(event.data), event.message_finished)
            return BytesMessage(data=part, message_finished=event.message_finished)
        if isinstance(event, Ping | Pong):
            return type(event)(payload=self._clean(bytes(event.payload))[:_MOST_OF_A_REASON])
        if isinstance(event, CloseConnection):
            reason = self._clean((event.reason or "").encode())[:_MOST_OF_A_REASON].decode(errors="ignore")
            return CloseConnection(code=event.code, reason=reason)
        raise LocalProtocolError(f"no event of an open WebSocket: {type(event).__name__}")

    def _clean(self, data: bytes) -> bytes:
        """Scrub the payload of a control frame."""
        self._find(data, last=True)
        return scrub(self.barred(), data, self.own())

    def _find(self, data: bytes, last: bool) -> None:  # noqa: FBT001 - a flag of the protocol
        if self.finder is not None:
            self._finder = self._finder or self.finder()
            self._finder.feed(data)
            if last:
                self._finder = None

    def _scrub_part(self, data: bytes, last: bool) -> bytes:  # noqa: FBT001 - a flag of the protocol
        """Scrub a part of a message; return as much as can be passed on now."""
        self._find(data, last)
        if self._scrubber is None:
            self._scrubber = Scrubber(self.barred())
        self._scrubber.renew(self.barred(), self.own())
        part = self._scrubber.feed(data)
        if last:
            part += self._scrubber.finish()
            self.found |= self._scrubber.found
            self._scrubber = None
        return part
