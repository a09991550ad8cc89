"""The server's end of a connection with one command of the same user."""

import socket

import anyio
from anyio.abc import ByteReceiveStream

from gloveport.sandbox.run import frames


class CommandConnection(ByteReceiveStream):
    """Bytes to and from a command, and descriptors to it.

    anyio's own stream over a UNIX socket raises in the event loop if it is cancelled at the moment data comes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        connected.setblocking(False)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive the next bytes.

        Raises:
            EndOfStream: The command has ended its sending direction.
            BrokenResourceError: The command is gone.
        """
        while True:
            try:
                data = self.socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self.socket)
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Send all data, with the descriptors beside its first bytes.

        Raises:
            BrokenResourceError: The command is gone.
        """
        try:
            await frames.send_bytes(self.socket, memoryview(data), descriptors)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close it."""
        self.socket.close()
