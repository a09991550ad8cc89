"""The few frames between the host and the first process of a sandbox: four bytes of length, and JSON.

Everything received is hostile: a frame is bounded before it is read and parsed by a parser with a depth limit.
"""

import json
import socket
import struct
from collections.abc import Mapping

import anyio
import pydantic_core
from pydantic import JsonValue

from gloveport.errors import GuestError

MAX_FRAME_BYTES = 16 << 20
_CREDENTIALS = struct.Struct("iii")


async def send(channel: socket.socket, message: Mapping[str, object], descriptors: tuple[int, ...] = ()) -> None:
    """Send one frame, the descriptors with its first bytes.

    Raises:
        OSError: The other end is gone.
    """
    body = json.dumps(message).encode("ascii")
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        try:
            sent = socket.send_fds(channel, [view], descriptors) if descriptors else channel.send(view)
        except BlockingIOError:
            await anyio.wait_writable(channel)
            continue
        view, descriptors = view[sent:], ()


async def send_descriptors(channel: socket.socket, descriptors: tuple[int, ...]) -> None:
    """Send a byte, and descriptors with it.

    Raises:
        OSError: The other end is gone.
    """
    while True:
        try:
            socket.send_fds(channel, [b"\0"], descriptors)
        except BlockingIOError:
            await anyio.wait_writable(channel)
        else:
            return


async def receive(
    channel: socket.socket, *, max_bytes: int = MAX_FRAME_BYTES
) -> tuple[dict[str, JsonValue], int] | None:
    """One frame and the sender's process id as the kernel attests it, or None at the end.

    Raises:
        GuestError: The frame is too large, cut short, or no JSON object.
    """
    head, pid = await _exactly(channel, 4)
    if not head:
        return None
    size = int.from_bytes(head, "big")
    if size > max_bytes:
        raise GuestError(f"a frame of {size} bytes came out of the sandbox; at most {max_bytes} are read")
    body, _ = await _exactly(channel, size)
    try:
        message = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise GuestError(f"a frame that is no JSON came out of the sandbox: {error}") from error
    if not isinstance(message, dict):
        raise GuestError("a frame that is no JSON object came out of the sandbox")
    return message, pid


async def expect(channel: socket.socket) -> tuple[dict[str, JsonValue], int]:
    """As ``receive``, where an end is a fault.

    Raises:
        GuestError: As ``receive``, or the other end is gone.
    """
    answer = await receive(channel)
    if answer is None:
        raise GuestError("its first process died")
    return answer


async def _exactly(channel: socket.socket, size: int) -> tuple[bytes, int]:
    """So many bytes; fewer, that is none, only at the end. Descriptors that a guest sends are closed, not kept."""
    data, pid = bytearray(), 0
    while len(data) < size:
        try:
            chunk, ancillary, _, _ = channel.recvmsg(
                min(size - len(data), 1 << 18), socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            await anyio.wait_readable(channel)
            continue
        except ConnectionResetError:
            chunk, ancillary = b"", []
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                pid = _CREDENTIALS.unpack(payload)[0]
        if not chunk:
            if data:
                raise GuestError("a frame that came out of the sandbox was cut short")
            return b"", pid
        data += chunk
    return bytes(data), pid
