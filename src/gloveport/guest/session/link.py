"""Frames on a socket between the processes of a session: four bytes of length, most significant first, and JSON.

Unlike ``init.receive`` this keeps bytes that follow a frame: an interrupt may follow its call at any time.
Standard library only.
"""

import _json  # as in ``init.py``: the wrapper ``json`` takes longer than ``_json`` itself
import _socket
import json
import os
import socket
import struct

HEAD_BYTES, MAX_FRAME_BYTES = 4, 16 << 20
CHUNK_BYTES = 1 << 16  # also most of what is sent at once to the host, past the supervisor
ANCILLARY_BYTES = socket.CMSG_SPACE(4 * 4)


class JsonOptions:
    """The options with which ``json.loads`` makes its parser."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


scan_json = _json.make_scanner(JsonOptions)


def refuse(value):
    """Refuse a value that is not JSON, as ``json.dumps`` does."""
    raise TypeError(f"a frame can't hold {type(value).__name__}")


def encode(message):
    """A message as JSON. Raises TypeError, ValueError where it is not JSON."""
    make_parts = _json.make_encoder({}, refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True)  # noqa: FBT003 - as ``json.dumps`` has it
    return "".join(make_parts(message, 0)).encode("ascii")


def decode(body):
    """Parse a JSON object; {} for another value. Raises ValueError for no JSON."""
    try:
        message, _ = scan_json(body.decode("utf-8", "surrogatepass"), 0)
    except StopIteration as error:
        raise json.JSONDecodeError("no JSON", body.decode(errors="replace"), error.value) from None
    return message if isinstance(message, dict) else {}  # null would read as no frame


def pack(message):
    """The bytes of a frame. Raises as ``encode``."""
    body = encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


class DirectChannel:
    """Messages between the host and the Python interpreter that is awake, directly and not through the supervisor.

    A message is whole or missing (``SOCK_SEQPACKET``): a process that dies leaves no half of one.
    """

    def __init__(self, number):
        self.connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, number)

    def fileno(self):
        """The descriptor to wait on."""
        return self.connection.fileno()

    def peek(self):
        """The next message, if there is one; it stays in the queue."""
        return self.take(_socket.MSG_PEEK)

    def take(self, flags=0):
        """The next message, if there is one, removed from the queue."""
        try:
            data = self.connection.recv(CHUNK_BYTES, _socket.MSG_DONTWAIT | flags)
        except BlockingIOError:  # another process was quicker
            return None
        if not data:
            os._exit(0)
        return decode(data)

    def send(self, message):
        """Send a message; tells whether there was room for it."""
        data = encode(message)
        if len(data) > CHUNK_BYTES:
            return False
        try:
            self.connection.send(data, _socket.MSG_DONTWAIT)
        except BlockingIOError:  # a program has filled it
            return False
        return True


class Link:
    """One end of a socket that carries frames.

    Attributes:
        descriptors: Descriptors that have come with frames, and nobody has taken yet.
    """

    def __init__(self, connection):
        self.connection = connection
        self.received = bytearray()
        self.descriptors = []

    def fileno(self):
        """The descriptor to wait on."""
        return self.connection.fileno()

    def has_frame(self):
        """Whether a whole frame is buffered: the socket won't become readable for it. Raises ValueError for none."""
        return len(self.received) >= HEAD_BYTES and len(self.received) >= self.find_end()

    def find_end(self):
        """Where the first frame ends."""
        size = int.from_bytes(self.received[:HEAD_BYTES], "big")
        if size > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {size} bytes: at most {MAX_FRAME_BYTES} are taken")
        return HEAD_BYTES + size

    def read(self, flags=0):
        """Read once; False where the other end is gone."""
        try:
            data, ancillary, _, _ = self.connection.recvmsg(
                CHUNK_BYTES, ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC | flags
            )
        except ConnectionResetError:
            return False
        self.received += data
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors += struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4])
        return bool(data)

    def take(self):
        """The object in the first whole frame; {} for another value. Raises ValueError for no JSON."""
        end = self.find_end()
        body = bytes(self.received[HEAD_BYTES:end])
        del self.received[:end]
        return decode(body)

    def receive(self):
        """The next frame, however long it takes; None where the other end is gone."""
        while not self.has_frame():
            if not self.read():
                return None
        return self.take()

    def receive_now(self):
        """The next frame, if it has come whole; else None, without waiting for the rest.

        Raises:
            EOFError: The other end is gone.
            ValueError: The bytes are no frame.
        """
        if not self.has_frame():
            try:
                is_open = self.read(socket.MSG_DONTWAIT)
            except BlockingIOError:
                is_open = True
            if not is_open:
                raise EOFError
        return self.take() if self.has_frame() else None

    def send(self, message, descriptors=()):
        """Send a frame. Raises OSError where the other end is gone."""
        frame = pack(message)
        if descriptors:
            sent = socket.send_fds(self.connection, [frame], descriptors)
            frame = frame[sent:]
        self.connection.sendall(frame)

    def close(self):
        """Close the socket, and the descriptors that came over it."""
        self.connection.close()
