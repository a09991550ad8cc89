"""Frames on a socket between the processes of a session: four bytes of length, most significant first, and JSON.

Unlike ``init.receive`` this keeps what comes behind a frame: a call may be followed by its interrupt at any time.
Standard library only.
"""

import _json  # as in ``init.py``: what ``json`` does besides takes longer than what it has ``_json`` do
import _socket
import json
import os
import socket
import struct

HEAD_BYTES, MAX_FRAME_BYTES = 4, 16 << 20
CHUNK_BYTES = 1 << 16  # also most of what is sent at once to the host, past the supervisor
ANCILLARY_BYTES = socket.CMSG_SPACE(4 * 4)


class JsonOptions:
    """How the parser of ``json.loads`` is set there."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


scan_json = _json.make_scanner(JsonOptions)


def refuse(value):
    """What ``json.dumps`` does with what is no JSON."""
    raise TypeError(f"a frame can't hold {type(value).__name__}")


def encode(message):
    """A message as JSON. Raises TypeError, ValueError for what is none."""
    make_parts = _json.make_encoder({}, refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True)  # noqa: FBT003 - as ``json.dumps`` has it
    return "".join(make_parts(message, 0)).encode("ascii")


def decode(body):
    """The object that this is; {} for what is none. Raises ValueError for no JSON."""
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
    """Messages between the host and whichever interpreter of Python is awake, which nobody passes on.

    Each is whole or not there (``SOCK_SEQPACKET``): who dies leaves no half of one behind.
    """

    def __init__(self, number):
        self.connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, number)

    def fileno(self):
        """The descriptor to wait on."""
        return self.connection.fileno()

    def peek(self):
        """The next message, if one is there; it stays."""
        return self.take(_socket.MSG_PEEK)

    def take(self, flags=0):
        """The next message, if one is there."""
        try:
            data = self.connection.recv(CHUNK_BYTES, _socket.MSG_DONTWAIT | flags)
        except BlockingIOError:  # another process was quicker
            return None
        if not data:
            os._exit(0)
        return decode(data)

    def send(self, message):
        """Send a message; whether there was room for it."""
        data = encode(message)
        if len(data) > CHUNK_BYTES:
            return False
        try:
            self.connection.send(data, _socket.MSG_DONTWAIT)
        except BlockingIOError:  # a program has filled it
            return False
        return True


class Link:
    """One end of such a socket.

    Attributes:
        descriptors: Those that have come with frames, and nobody has taken yet.
    """

    def __init__(self, connection):
        self.connection = connection
        self.received = bytearray()
        self.descriptors = []

    def fileno(self):
        """The descriptor to wait on."""
        return self.connection.fileno()

    def has_frame(self):
        """Whether a whole frame has come already: nothing will be readable for it. Raises ValueError for no frame."""
        return len(self.received) >= HEAD_BYTES and len(self.received) >= self.find_end()

    def find_end(self):
        """Where the first frame ends."""
        size = int.from_bytes(self.received[:HEAD_BYTES], "big")
        if size > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {size} bytes: at most {MAX_FRAME_BYTES} are taken")
        return HEAD_BYTES + size

    def read(self, flags=0):
        """Read a piece, once; False where the other end is gone."""
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
        """The object of the first frame that has come whole; {} for what is none. Raises ValueError for no JSON."""
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
        """The next frame of those that have come; None while there is none. It never waits for the rest of one.

        Raises:
            EOFError: The other end is gone.
            ValueError: What comes is no frame.
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
        """Close it, and what came over it."""
        self.connection.close()
