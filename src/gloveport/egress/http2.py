"""HTTP/2 as a client: many exchanges beside each other on one connection, none of which can stop another.

Of each stream at most a window is held. A stream's window opens again as its content is read, so that who reads slowly
slows its own server down; the connection's opens as it comes, so that nobody else. One task reads, one writes: an
exchange that is cancelled leaves no half frame behind. GOAWAY is read here: h2 would end the streams that the server
means to finish.
"""

import re
import time

import anyio
import h2.events
from anyio.abc import TaskGroup
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError, H2Error
from h2.settings import SettingCodes, Settings

from gloveport.egress.heads import HEAD_BYTES, HOP_BY_HOP
from gloveport.egress.http1 import Body, Unheard
from gloveport.egress.http2_stream import STREAM_WINDOW, Exchange, forwarded
from gloveport.egress.messages import Outbound, Route
from gloveport.egress.wire import CHUNK_BYTES, Wire
from gloveport.errors import UpstreamError
from gloveport.fairness import Pace

CONNECTION_WINDOW = 1 << 24
STREAMS = 100
"""At a time on one connection, also where the server would take more."""

BACKLOG_BYTES = 1 << 16
"""A body waits while more than this is still to be written."""

FLOOD_BYTES = 1 << 20
"""A server that makes us owe it more than this in answers to PING and SETTINGS, and reads none, is left."""

TABLE_BYTES = 4096
"""Of headers that are remembered to be said shorter: the protocol's default. Each header is looked for in all of it,
so a server that may have it larger stops everybody."""

_READ_BYTES = 1 << 14
"""At once: there may be a frame in every ten."""

_FRAME_HEAD = 9
_FRAME_BYTES = 1 << 14
_GOAWAY = 7
_LAST_STREAM = (1 << 31) - 1
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


class Unprocessed(UpstreamError):  # noqa: N818 - an UpstreamError that says when
    """The server says that it has done nothing about the request: it can be sent again."""


class Connection:
    """A connection to the server of a route, shared by exchanges. ``run`` keeps it alive.

    Attributes:
        used: Whether it has carried an exchange.
        fault: Why it is at its end.
        idle_since: When it carried something last, by the monotonic clock; ``None`` while it does.
    """

    def __init__(self, wire: Wire, route: Route) -> None:
        self.name = f"{route.host}:{route.port}"
        self.route = route
        self.used = False
        self.fault: UpstreamError | None = None
        self.idle_since: float | None = time.monotonic()
        self._wire = wire
        self._authority = route.authority.encode("ascii")
        self._scheme = route.scheme.encode("ascii")
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_BYTES,
            },
        )
        self._streams: dict[int, Exchange] = {}
        self._frames = bytearray()
        self._outbound = bytearray()
        self._due = anyio.Event()
        self._progress = anyio.Event()
        self._owed = 0
        self._leaving = False
        self._scope = anyio.CancelScope()
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - self._h2.inbound_flow_control_window)
        self.flush()

    def is_ready(self) -> bool:
        """Whether it can carry one more."""
        if self._leaving or self.fault is not None or self._h2.highest_outbound_stream_id >= _LAST_STREAM - 2:
            return False
        return len(self._streams) < min(self._h2.remote_settings.max_concurrent_streams, STREAMS)

    async def run(self) -> None:
        """Read and write until it is closed or breaks."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    await self._read()
                    tasks.cancel_scope.cancel()
        finally:
            self._fail("upstream_broke_off", f"{self.name} broke off: it hung up.")
            self._wire.close()

    def close(self) -> None:
        """Close it, without waiting."""
        self._scope.cancel()

    async def exchange(self, tasks: TaskGroup, out: Outbound, body: Body, length: int | None) -> Exchange:
        """Send a request, and wait for the head of its answer. There must be room for it.

        Args:
            tasks: Where a long body is sent.
            out: Its head; whatever in it is about framing is left out.
            body: All of it, or piece by piece.
            length: Of a body that comes piece by piece, in bytes, where it is known.

        Raises:
            UpstreamError: ``bad_request``, ``bad_response`` or ``upstream_broke_off``; ``Unprocessed`` where the server
                has not begun.
        """
        exchange = Exchange(self, self._h2, self._open(out, body, length))
        self.used, self.idle_since = True, None
        self._streams[exchange.number] = exchange
        try:
            await exchange.begin(tasks, body, length)
        except BaseException:
            await exchange.end()
            raise
        return exchange

    def flush(self) -> None:
        """Let the writer write what is due."""
        data = self._h2.data_to_send()
        if data:
            self._outbound += data
            self._due.set()

    async def room(self, exchange: Exchange) -> int:
        """Wait until a stream may send, and tell how many bytes. 0 when it never may."""
        while exchange.fault is None:
            window = min(self._h2.local_flow_control_window(exchange.number), self._h2.max_outbound_frame_size)
            if window > 0 and len(self._outbound) < BACKLOG_BYTES:
                return window
            await self._progress.wait()
        return 0

    def leave(self, number: int) -> None:
        """Carry a stream no more."""
        del self._streams[number]
        if not self._streams:
            self.idle_since = time.monotonic()
            if self._leaving:
                self.close()

    def _open(self, out: Outbound, body: Body, length: int | None) -> int:
        if _is_illegal(out):
            raise UpstreamError("bad_request", "The request has characters that HTTP does not allow.")
        headers = [
            (b":method", out.method.encode()),
            (b":authority", self._authority),
            (b":scheme", self._scheme),
            (b":path", out.target.encode()),
            *(header for header in out.headers if header[0] not in HOP_BY_HOP),
        ]
        size = len(body) if isinstance(body, bytes) else length
        if body is not None and size is not None:
            headers.append((b"content-length", b"%d" % size))
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, headers, end_stream=body is None)
        except H2Error:
            # From None: its text may hold a header, and that may be a credential.
            raise Unprocessed("upstream_broke_off", f"{self.name} takes no request now.") from None
        return number

    async def _write(self) -> None:
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            data, self._outbound = self._outbound, bytearray()
            try:
                await self._wire.send(data)
            except OSError as error:
                self._fail("upstream_broke_off", f"{self.name} broke off: {error.strerror or error}.")
                self._scope.cancel()
                return
            self._proceed()

    async def _read(self) -> None:
        pace = Pace()
        try:
            while data := await self._wire.receive(_READ_BYTES):
                began = time.monotonic()
                for event in self._h2.receive_data(self._without_goaway(data)):
                    self._take(event)
                await pace.rest(began)
                if self._owed >= CHUNK_BYTES:
                    self._h2.increment_flow_control_window(self._owed)
                    self._owed = 0
                self.flush()
                if len(self._outbound) > FLOOD_BYTES:
                    return self._fail("upstream_broke_off", f"{self.name} asks for much and reads nothing.")
                if self._leaving and not self._streams:
                    return None
        except OSError as error:
            self._fail("upstream_broke_off", f"{self.name} broke off: {error.strerror or error}.")
        except Exception:  # noqa: BLE001 - whatever a server sends may end its own connection and nothing else
            # Without the error's text: that holds what the server sent, and nobody has scrubbed it.
            self._fail("bad_response", f"The answer of {self.name} is refused: it is no valid HTTP/2.")

    def _without_goaway(self, data: bytes) -> bytearray:
        """Give the frames that are whole by now, without GOAWAY."""
        frames = self._frames + data
        kept = bytearray()
        start = 0
        while len(frames) - start >= _FRAME_HEAD:
            size = int.from_bytes(frames[start : start + 3], "big")
            end = start + _FRAME_HEAD + size
            if size > _FRAME_BYTES:
                raise FrameTooLargeError
            if end > len(frames):
                break
            if frames[start + 3] == _GOAWAY:
                self._go_away(
                    int.from_bytes(frames[start + _FRAME_HEAD : start + _FRAME_HEAD + 4], "big") & _LAST_STREAM
                )
            else:
                kept += frames[start:end]
            start = end
        self._frames = frames[start:]
        return kept

    def _go_away(self, last: int) -> None:
        self._leaving = True
        for number, exchange in self._streams.items():
            if number > last:
                exchange.fail(Unprocessed("upstream_broke_off", f"{self.name} is about to hang up."))

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._owed += event.flow_controlled_length
        if isinstance(event, h2.events.RemoteSettingsChanged):
            self._bound_table()
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._proceed()
            return
        exchange = self._streams.get(getattr(event, "stream_id", None) or 0)
        if exchange is None:
            return
        match event:
            case h2.events.ResponseReceived():
                exchange.take_head(event.headers)
            case h2.events.DataReceived():
                exchange.take_data(event.data, event.flow_controlled_length)
            case h2.events.TrailersReceived():
                exchange.trailers = forwarded(event.headers)
            case h2.events.StreamEnded():
                exchange.take_end()
            case h2.events.StreamReset():
                kind = Unprocessed if event.error_code == ErrorCodes.REFUSED_STREAM else UpstreamError
                exchange.fail(kind("upstream_broke_off", f"{self.name} broke off: it has reset the stream."))
                self._proceed()
            case _:
                pass

    def _bound_table(self) -> None:
        """Take no larger table than ours, and remember of many changes what is to be said (RFC 7541, 4.2)."""
        encoder = self._h2.encoder
        encoder.header_table_size = min(encoder.header_table_size, TABLE_BYTES)
        changes = encoder.table_size_changes
        changes[:] = sorted({min(changes), changes[-1]}) if changes else ()
        encoder.header_table.resized = bool(changes)  # hpack forgets it when the same size is set once more

    def _fail(self, code: str, message: str) -> None:
        if self.fault is not None:
            return
        self.fault = UpstreamError(code, message)
        for exchange in self._streams.values():
            unheard = code == "upstream_broke_off" and not exchange.status
            exchange.fail(Unheard(code, message) if unheard else UpstreamError(code, message))
        self._proceed()

    def _proceed(self) -> None:
        """Let bodies that wait look again whether they may go on."""
        self._progress.set()
        self._progress = anyio.Event()


def _is_illegal(out: Outbound) -> bool:
    return (
        _TOKEN.fullmatch(out.method.lower().encode()) is None
        or _TARGET.fullmatch(out.target.encode()) is None
        or any(_TOKEN.fullmatch(name) is None or _VALUE.fullmatch(value) is None for name, value in out.headers)
    )
