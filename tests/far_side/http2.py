"""An HTTP/2 server by h2."""

import contextlib
import math
from collections.abc import AsyncIterator, Iterator

import anyio
import h2.events
from anyio.abc import ByteStream
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from tests.far_side.app import App, BreakOff, Request, Response


class Session:
    """One connection. What is to be observed or provoked is public."""

    def __init__(self, app: App, stream: ByteStream, streams_at_once: int = 100) -> None:
        self.app = app
        self.protocol = H2Connection(H2Configuration(client_side=False))
        self.protocol.local_settings = Settings(
            client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: streams_at_once}
        )
        self.resets: list[int] = []
        self._stream = stream
        self._sending = anyio.Lock()
        self._moved = anyio.Event()
        self._bodies = {}

    async def handle(self) -> None:
        self.protocol.initiate_connection()
        await self.flush()
        async with anyio.create_task_group() as tasks:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._read(tasks)
            tasks.cancel_scope.cancel()

    async def _read(self, tasks) -> None:
        async for data in self._stream:
            for event in self.protocol.receive_data(data):
                self._take(event, tasks)
            self._moved.set()
            self._moved = anyio.Event()
            await self.flush()

    async def flush(self) -> None:
        async with self._sending:
            if data := self.protocol.data_to_send():
                await self._stream.send(data)

    async def go_away(self, last: int) -> None:
        """Tell the client to hang up, and go on with the streams up to ``last``."""
        frame = b"\0\0\x08\x07\0" + bytes(4) + last.to_bytes(4, "big") + bytes(4)
        async with self._sending:
            await self._stream.send(frame)

    async def send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send(data)

    def _take(self, event: h2.events.Event, tasks) -> None:
        match event:
            case h2.events.RequestReceived():
                body_in, body_out = anyio.create_memory_object_stream(math.inf)
                self._bodies[event.stream_id] = body_in
                head = {name: value.decode() for name, value in event.headers[:4]}
                headers = [(bytes(name), bytes(value)) for name, value in event.headers]
                request = Request(head[b":method"], head[b":path"], headers, self._body(event.stream_id, body_out))
                tasks.start_soon(self._answer, event.stream_id, request, body_out)
            case h2.events.DataReceived():
                try:
                    self._bodies[event.stream_id].send_nowait((event.data, event.flow_controlled_length))
                except anyio.BrokenResourceError:
                    self._pass_over(event.flow_controlled_length)
            case h2.events.StreamEnded():
                self._bodies[event.stream_id].close()
            case h2.events.StreamReset():
                self.resets.append(event.stream_id)
                self._bodies[event.stream_id].close()
            case _:
                pass

    async def _body(self, number: int, pieces) -> AsyncIterator[bytes]:
        async for piece, size in pieces:
            yield piece
            self.protocol.acknowledge_received_data(size, number)
            await self.flush()

    async def _answer(self, number: int, request: Request, body) -> None:
        # Who has left the stream, or hung up, is no fault.
        with body, contextlib.suppress(H2Error, anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                await self._respond(number, request, await self.app.answer(request))
            except BreakOff:
                self.protocol.reset_stream(number)
                await self.flush()
            finally:
                self._pass_over(sum(_left(body)))

    def _pass_over(self, size: int) -> None:
        """A body that nobody reads leaves the others their room."""
        if size:
            self.protocol.increment_flow_control_window(size)

    async def _respond(self, number: int, request: Request, response: Response) -> None:
        if response.informational:
            self.protocol.send_headers(number, [(":status", str(response.informational))])
        self.protocol.send_headers(number, [(":status", str(response.status)), *response.headers])
        await self.flush()
        async for piece in response.body:
            await self._send(number, piece if request.method != "HEAD" else b"")
        if response.trailers:
            self.protocol.send_headers(number, response.trailers, end_stream=True)
        else:
            self.protocol.end_stream(number)
        await self.flush()

    async def _send(self, number: int, piece: bytes) -> None:
        while piece:
            room = min(self.protocol.local_flow_control_window(number), self.protocol.max_outbound_frame_size)
            if room <= 0:
                await self._moved.wait()
                continue
            self.protocol.send_data(number, piece[:room])
            piece = piece[room:]
            await self.flush()


def _left(body) -> Iterator[int]:
    """Sizes of the pieces that have come and were not read."""
    with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            yield body.receive_nowait()[1]
