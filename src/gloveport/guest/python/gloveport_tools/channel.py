"""Sends requests to the host over the door to the tools: one request, one answer.

A frame is four bytes of length, most significant first, and JSON in UTF-8: ``{"id", "op", …}`` goes out, and ``{"id",
"value"}`` or ``{"id", "error"}`` comes back.

* A blocking call has a connection to itself while it lasts, one of a few that threads use in turn.
* Calls of an event loop share one connection, and match their answers by ``id``, in any order.
* After a fork the child has connections of its own: on its parent's it would take the parent's answers.

Standard library only; asyncio is imported where it is used.
"""

import json
import os
import select
import socket
from _queue import SimpleQueue
from _thread import _local

HEAD_BYTES, MAX_FRAME_BYTES = 4, 8 << 20
CHUNK_BYTES = 1 << 16
MOST_CONNECTIONS = 32  # of 64 that the host answers at a time, so that no thread waits for ever


class RequestTooLargeError(ValueError):
    """A request is larger than the host takes."""


class Channel:
    """Connections to the host at ``address``, such as ``127.0.0.3:3128``, each opened when it is needed."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.place = host, int(port)
        self.begin()

    def begin(self):
        """Start without any connection, for this process."""
        self.pid = os.getpid()
        self.idle = []
        self.places = SimpleQueue()
        for _ in range(MOST_CONNECTIONS):
            self.places.put(None)
        self.here = _local()

    def ask(self, request):
        """Send a request and wait for its answer's frame. From any thread. Raises OSError, RequestTooLargeError."""
        frame = encode(0, request)
        if self.pid != os.getpid():
            self.begin()
        places = self.places
        places.get()
        try:
            connection = self.take()
            try:
                connection.sendall(frame)
                answer = receive(connection)
            except BaseException:  # an interrupt too: the next request on it would get the answer to this one
                connection.close()
                raise
            self.idle.append(connection)
            return answer
        finally:
            places.put(None)

    def take(self):
        """An unused connection. The host has closed those of a session's earlier calls."""
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:  # another thread has it
                break
            if not is_readable(connection):
                return connection
            connection.close()
        connection = socket.create_connection(self.place)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    async def aio(self, request):
        """As ``ask``, for a coroutine, without blocking others."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self.pid != os.getpid():
            self.begin()
        link = getattr(self.here, "link", None)
        if link is None or link.loop is not loop or link.is_stale():
            link = self.here.link = LoopConnection(loop, asyncio.Lock())
        if link.transport is None:
            async with link.opening:
                if link.transport is None:
                    await loop.create_connection(lambda: link, *self.place)
        return await link.ask(request)


class LoopConnection:
    """The connection of one event loop; a protocol, in asyncio's terms."""

    def __init__(self, loop, opening):
        self.loop = loop
        self.opening = opening
        self.transport = None
        self.received = bytearray()
        self.waiting = {}
        self.last = 0

    def is_stale(self):
        """Whether the host has closed the connection, even if the loop has not noticed yet."""
        if self.transport is None or self.waiting:
            return False
        if self.transport.is_closing():
            return True
        is_stale = is_readable(self.transport.get_extra_info("socket"))
        if is_stale:
            self.transport.abort()
        return is_stale

    async def ask(self, request):
        """Send a request and wait for its answer's frame."""
        if self.transport is None:  # closed as soon as it was opened
            raise closed_error()
        self.last += 1
        number = self.last
        frame = encode(number, request)
        answer = self.waiting[number] = self.loop.create_future()
        self.transport.write(frame)
        try:
            return await answer
        finally:
            self.waiting.pop(number, None)
            if answer.cancelled() and self.transport is not None and not self.transport.is_closing():
                self.transport.write(encode(number, {"op": "cancel"}))

    def connection_made(self, transport):
        """See ``asyncio.BaseProtocol``."""
        self.transport = transport
        self.received.clear()

    def data_received(self, data):
        """See ``asyncio.Protocol``."""
        self.received += data
        while len(self.received) >= HEAD_BYTES:
            end = HEAD_BYTES + int.from_bytes(self.received[:HEAD_BYTES], "big")
            if len(self.received) < end:
                return
            frame = json.loads(self.received[HEAD_BYTES:end].decode())
            del self.received[:end]
            answer = self.waiting.get(frame["id"])
            if answer is not None and not answer.done():  # nobody waits for the answer to a cancelled call
                answer.set_result(frame)

    def eof_received(self):
        """See ``asyncio.Protocol``: nothing more will come, so close."""

    def connection_lost(self, _error):
        """See ``asyncio.BaseProtocol``."""
        self.transport = None
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(closed_error())

    def pause_writing(self):
        """See ``asyncio.BaseProtocol``: a request is in memory as a whole in any case."""

    def resume_writing(self):
        """See ``asyncio.BaseProtocol``."""


def encode(number, request):
    """A request's frame. Raises RequestTooLargeError."""
    body = json.dumps({"id": number, **request}, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise RequestTooLargeError(f"a request of {len(body)} bytes: the host takes {MAX_FRAME_BYTES}")
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def is_readable(connection):
    """Whether data or the end has come: on a connection on which no answer is due, it is the end."""
    events = select.poll()
    events.register(connection.fileno(), select.POLLIN)
    return bool(events.poll(0))


def receive(connection):
    """Receive the one answer that is due."""
    data = bytearray(connection.recv(CHUNK_BYTES))
    while len(data) < HEAD_BYTES or len(data) < HEAD_BYTES + int.from_bytes(data[:HEAD_BYTES], "big"):
        chunk = connection.recv(CHUNK_BYTES)
        if not chunk:
            raise closed_error()
        data += chunk
    return json.loads(data[HEAD_BYTES:].decode())


def closed_error():
    """The error for a connection that the host has closed."""
    return ConnectionResetError("the host has closed the connection")
