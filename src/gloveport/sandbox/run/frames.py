"""Encodes the frames between the host and the first process of a sandbox: four bytes of length, and JSON.

Everything received is hostile: a frame is bounded before it is read and parsed by a parser with a depth limit.
"""

import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct, field

from gloveport.ascii_json import encode_json
from gloveport.errors import GuestError
from gloveport.late_libraries import pydantic_core
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Directories
from gloveport.sandbox.connectors import Connectors
from gloveport.sandbox.plan import Door

MAX_FRAME_BYTES = 16 << 20
DIRECT_BYTES = 1 << 16
"""The largest direct message to or from a session's interpreter, past its supervisor."""

_PLAIN_DEPTH = 100
_HEAD_BYTES = 4
_CHUNK_BYTES = 1 << 16
_DESCRIPTOR = struct.Struct("i")
_CREDENTIALS = struct.Struct("iii")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_CREDENTIALS.size)


async def send(channel: socket.socket, message: Mapping[str, object], descriptors: tuple[int, ...] = ()) -> None:
    """Send one frame, the descriptors with its first bytes. Raises OSError if the other end is gone."""
    await send_bytes(channel, memoryview(encode(message)), descriptors)


def encode(message: Mapping[str, object]) -> bytes:
    """Encode a frame."""
    body = encode_json(message).encode("ascii")
    return len(body).to_bytes(_HEAD_BYTES, "big") + body


async def send_bytes(channel: socket.socket, view: "memoryview[int]", descriptors: tuple[int, ...] = ()) -> None:
    """Send a frame, or the rest of one. Raises as ``send``."""
    while view:
        try:
            sent = socket.send_fds(channel, [view], descriptors) if descriptors else channel.send(view)
        except BlockingIOError:
            await anyio.wait_writable(channel)
            continue
        view, descriptors = view[sent:], ()


async def send_descriptors(channel: socket.socket, descriptors: tuple[int, ...] = (), byte: int = 0) -> None:
    """Send a byte, with descriptors if there are any. Raises OSError if the other end is gone."""
    while True:
        try:
            socket.send_fds(channel, [bytes([byte])], descriptors)
        except BlockingIOError:
            await anyio.wait_writable(channel)
        else:
            return


_NO_NUMBER_LEFT = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class FrameReader(Struct, kw_only=True):
    """Reads one frame from a sandbox, piece by piece. Data after it is lost, or left to another reader.

    Attributes:
        max_bytes: The most bytes that are read.
        most_descriptors: The most descriptors that are accepted with it; further ones find no room.
        leaves_rest: Whether data after the frame is left unread, which costs one more read.
        message: Its message, once it is whole; None if the channel has ended instead.
        descriptors: The received descriptors. The caller closes them.
        pid: The sender of the last piece, as the kernel attests.
        is_used_up: Whether a descriptor was lost because we had no number left.
    """

    channel: socket.socket
    max_bytes: int = MAX_FRAME_BYTES
    most_descriptors: int = 0
    leaves_rest: bool = False
    message: dict[str, JsonValue] | None = None
    descriptors: list[int] = field(default_factory=list)
    pid: int = 0
    is_used_up: bool = False
    _data: bytearray = field(default_factory=bytearray)

    def take(self) -> bool:
        """Read a piece, if one is there, and tell whether the frame is complete or the channel has ended.

        Raises:
            GuestError: The frame is too large, cut short, or no JSON object.
        """
        free_slots = self.most_descriptors - len(self.descriptors)
        room = _ANCILLARY_BYTES + (socket.CMSG_SPACE(_DESCRIPTOR.size * free_slots) if free_slots else 0)
        most = min(_CHUNK_BYTES, self._end() - len(self._data)) if self.leaves_rest else _CHUNK_BYTES
        try:
            chunk, ancillary, flags, _ = self.channel.recvmsg(most, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            chunk, ancillary, flags = b"", [], 0
        for level, kind, payload in ancillary:  # unexpected descriptors of a guest find no room, and are closed
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.pid = _CREDENTIALS.unpack(payload)[0]
            elif kind == socket.SCM_RIGHTS:
                self.descriptors += [number for (number,) in _DESCRIPTOR.iter_unpack(payload)]
        self.is_used_up |= _is_used_up(flags, len(self.descriptors), self.most_descriptors)
        if not chunk:
            if self._data:
                raise GuestError("a frame that came out of the sandbox was cut short")
            return True
        self._data += chunk
        if len(self._data) < self._end():
            return False
        self.message = parse(bytes(self._data[_HEAD_BYTES : self._end()]))
        return True

    def _end(self) -> int:
        """Where the frame ends, as far as is known."""
        if len(self._data) < _HEAD_BYTES:
            return _HEAD_BYTES
        size = int.from_bytes(self._data[:_HEAD_BYTES], "big")
        if size > self.max_bytes:
            raise GuestError(f"a frame of {size} bytes came out of the sandbox; at most {self.max_bytes} are read")
        return _HEAD_BYTES + size


async def expect(channel: socket.socket) -> tuple[dict[str, JsonValue], int]:
    """Wait for one frame; returns it with the sender's process id.

    Raises:
        GuestError: As ``FrameReader.take``, or the other end is gone.
    """
    incoming = FrameReader(channel=channel)
    while not incoming.take():
        await anyio.wait_readable(channel)
    if incoming.message is None:
        raise GuestError("its first process died")
    return incoming.message, incoming.pid


async def expect_ready(
    channel: socket.socket, stack: contextlib.ExitStack
) -> tuple[dict[str, JsonValue], int, Directories]:
    """As ``expect``, for the message of a sandbox that is confined, with its directories. ``stack`` closes these.

    Raises:
        GuestError: As ``expect``, or the descriptors are not those of its directories.
    """
    incoming = FrameReader(channel=channel, most_descriptors=len(Directories._fields))
    stack.callback(_close_all, incoming.descriptors)
    while not incoming.take():
        await anyio.wait_readable(channel)
    if incoming.message is None:
        raise GuestError("its first process died")
    if [stat.S_IFMT(os.fstat(number).st_mode) for number in incoming.descriptors] != [stat.S_IFDIR] * len(
        Directories._fields
    ):
        raise GuestError("it did not send its directories") from _NO_NUMBER_LEFT if incoming.is_used_up else None
    return incoming.message, incoming.pid, Directories(*incoming.descriptors)


def _close_all(descriptors: Sequence[int]) -> None:
    for number in descriptors:
        os.close(number)


async def receive_descriptor(channel: socket.socket, mode: Literal["r", "r+"] = "r") -> FileIO:
    """Receive one descriptor with a byte. ``mode``: of the file object.

    Raises:
        GuestError: None comes, or more than one.
    """
    (descriptor,) = await receive_descriptors(channel, 1)
    return FileIO(descriptor, mode)


async def receive_descriptors(channel: socket.socket, count: int) -> tuple[int, ...]:
    """Receive so many descriptors with one byte. The caller closes them. Raises GuestError if another number comes."""
    room = _ANCILLARY_BYTES + socket.CMSG_SPACE(_DESCRIPTOR.size * count)
    while (received := _receive_byte(channel, room)) is None:
        await anyio.wait_readable(channel)
    data, ancillary, flags, _ = received
    if not data:
        raise GuestError("it has gone")
    payloads = [payload for _, kind, payload in ancillary if kind == socket.SCM_RIGHTS]
    descriptors = tuple(number for payload in payloads for (number,) in _DESCRIPTOR.iter_unpack(payload))
    if len(descriptors) != count or flags & socket.MSG_CTRUNC:  # room is rounded up: one more may have fitted
        _close_all(descriptors)
        cause = _NO_NUMBER_LEFT if _is_used_up(flags, len(descriptors), count) else None
        raise GuestError(f"it sent {len(descriptors) or 'no'} descriptors where {count} were to come") from cause
    return descriptors


def _is_used_up(flags: int, count: int, most: int) -> bool:
    """Whether descriptors were lost although the message had room: this process had no numbers left."""
    return bool(flags & socket.MSG_CTRUNC) and count < most


def _receive_byte(channel: socket.socket, room: int) -> "tuple[bytes, list[tuple[int, int, bytes]], int, Any] | None":
    """A byte with its ancillary data, as from ``recvmsg``; None while nothing is there."""
    with contextlib.suppress(BlockingIOError):
        return channel.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    return None


class NetworkSockets(Struct, frozen=True):
    """Sockets of a sandbox's network namespace that the host holds: see ``sandbox.base.Child``."""

    doors: tuple[socket.socket, ...] = ()
    connectors: Connectors = field(default_factory=lambda: Connectors((), []))


async def receive_network(
    channel: socket.socket, doors: Sequence[Door], connectors: Sequence[int], stack: contextlib.ExitStack
) -> NetworkSockets:
    """Receive, with one byte, the sockets that listen at ``doors``, and those of ``connectors``. They do not block, and
    ``stack`` closes them.

    Raises:
        GuestError: Other sockets listen, or another number comes.
        OSError: A descriptor is no socket.
    """
    descriptors = await receive_descriptors(channel, len(doors) + len(connectors))
    unused = Connectors(connectors, [*descriptors[len(doors) :]])
    stack.callback(unused.close)
    door_descriptors, listeners = [*descriptors[: len(doors)]], list[socket.socket]()
    try:
        while door_descriptors:
            listeners.append(stack.enter_context(socket.socket(fileno=door_descriptors[0])))
            del door_descriptors[0]
    finally:
        _close_all(door_descriptors)
    for listener, door in zip(listeners, doors, strict=True):
        listener.settimeout(0)
        if not _listens_at(listener, door):
            raise GuestError(f"what it sent does not listen at {door[0]}:{door[1]}")
    return NetworkSockets(tuple(listeners), unused)


def _listens_at(listener: socket.socket, door: Door) -> bool:
    return (
        (listener.family, listener.type) == (socket.AF_INET, socket.SOCK_STREAM)
        and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        and listener.getsockname() == door
    )


def parse(body: bytes) -> dict[str, JsonValue]:
    """Parse a guest's message. Raises GuestError if it is no JSON object."""
    # msgspec, which is imported anyway, has no depth limit: it must not parse text that could nest deeply.
    is_flat = body.count(b"[") + body.count(b"{") <= _PLAIN_DEPTH
    try:
        message = msgspec.json.decode(body) if is_flat else pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise GuestError(f"a frame that is no JSON came out of the sandbox: {error}") from error
    if not isinstance(message, dict):
        raise GuestError("a frame that is no JSON object came out of the sandbox")
    return message


def open_pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """A pipe whose reading end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return (
        stack.enter_context(FileIO(reading)),
        stack.enter_context(FileIO(writing, "w")),
    )
