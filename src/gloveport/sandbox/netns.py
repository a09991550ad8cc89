"""Doors, as they arrive: sockets that listen in a sandbox's network namespace and are handed to the host.

They come at one moment, from a process of ours, before there is a program. Exactly those of the plan are taken, and
each is looked at all the same: on them the host will answer in the name of others.
"""

import contextlib
import os
import socket
from collections.abc import Sequence

from gloveport.errors import GuestError
from gloveport.sandbox import frames
from gloveport.sandbox.base import Door


async def receive(
    channel: socket.socket, doors: Sequence[Door], stack: contextlib.ExitStack
) -> tuple[socket.socket, ...]:
    """The sockets that listen at ``doors``, as they come with one byte. They do not block, and ``stack`` closes them.

    Raises:
        GuestError: Others come, or none.
        OSError: What comes is no socket.
    """
    left = [*await frames.receive_descriptors(channel, len(doors))]
    listeners: list[socket.socket] = []
    try:
        while left:
            listeners.append(stack.enter_context(socket.socket(fileno=left[0])))
            del left[0]
    finally:
        for descriptor in left:
            os.close(descriptor)
    for listener, door in zip(listeners, doors, strict=True):
        if not _listens_at(listener, door):
            raise GuestError(f"what it sent does not listen at {door[0]}:{door[1]}")
        listener.settimeout(0)
    return tuple(listeners)


def _listens_at(listener: socket.socket, door: Door) -> bool:
    return (
        (listener.family, listener.type) == (socket.AF_INET, socket.SOCK_STREAM)
        and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        and listener.getsockname() == door
    )
