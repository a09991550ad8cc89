"""Connects their owner's browser to ports of commands' sandboxes, by sockets that lie in those sandboxes.

Nothing in a sandbox can use such a socket: the host alone has it, and it is bound to nothing until the host connects.
"""

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator
from functools import cached_property
from typing import Final

import anyio
from msgspec import Struct, field

from gloveport.errors import GloveportError, GuestError
from gloveport.sandbox.connectors import Connectors

_LOOPBACK: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_FREE_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2.0
_WHAT_CHARACTERS: Final = 200
"""Of a command: all are sent in one message, which a long one would make too long."""

_UNSPECIFIED: Final = struct.pack("=H14x", socket.AF_UNSPEC)

_libc = ctypes.CDLL(None, use_errno=True)


class PortError(GloveportError):
    """A port of a sandbox can't be reached."""


class _FreeSockets(Struct, frozen=True, eq=False):
    """The unconnected sockets of one address family."""

    sockets: list[socket.socket]
    places: anyio.Semaphore

    @contextlib.asynccontextmanager
    async def take(self) -> AsyncIterator[socket.socket]:
        """A free socket; on leaving it is disconnected. Raises PortError."""
        with anyio.move_on_after(_FREE_SECONDS) as time:
            await self.places.acquire()
        if time.cancelled_caught:
            raise PortError("there are too many connections to it", hint="close some tabs of the browser")
        connector = self.sockets.pop()
        try:
            yield connector
        finally:
            _disconnect(connector)
            self.sockets.append(connector)
            self.places.release()


class _Reachable(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A sandbox, and the sockets that reach it."""

    what: str
    connectors: Connectors

    @cached_property
    def free(self) -> tuple[tuple[str, _FreeSockets], ...]:
        """The free sockets by target address. Made late: most commands end before anybody asks. Raises GuestError."""
        every = self.connectors.open()
        alike = [(address, [one for one in every if one.family == family]) for family, address in _LOOPBACK]
        return tuple((address, _FreeSockets(each, anyio.Semaphore(len(each)))) for address, each in alike if each)

    @property
    def is_there(self) -> bool:
        """Whether the sandbox exists: its sockets close with it."""
        return not self.connectors.is_closed


class SandboxPorts(Struct, eq=False, kw_only=True):
    """The sandboxes of one workspace whose ports can be reached, by the ids of their commands or sessions."""

    _sandboxes: dict[str, _Reachable] = field(default_factory=dict)

    def add(self, name: str, what: str, connectors: Connectors) -> None:
        """Make the ports of a sandbox reachable as long as it exists; ``what`` tells people what runs in it."""
        self._sandboxes = {other: one for other, one in self._sandboxes.items() if one.is_there}
        if connectors.families and name not in self._sandboxes:
            self._sandboxes[name] = _Reachable(what=what[:_WHAT_CHARACTERS], connectors=connectors)

    def remove(self, name: str) -> None:
        """Make no port of a sandbox reachable any more."""
        self._sandboxes.pop(name, None)

    def names(self) -> dict[str, str]:
        """What runs where, the latest last."""
        return {name: one.what for name, one in self._sandboxes.items() if one.is_there}

    @contextlib.asynccontextmanager
    async def connect(self, name: str, port: int) -> AsyncIterator[socket.socket]:
        """A connection to a port of a sandbox's loopback. On leaving it is reset, even if others hold its descriptor.

        Raises:
            PortError: There is no such sandbox, nothing listens there, or there are too many connections.
        """
        sandbox = self._sandboxes.get(name)
        if sandbox is None or not sandbox.is_there:
            raise PortError("there is no such command or session any more")
        try:
            every = sandbox.free
        except GuestError as error:
            raise PortError(f"its ports can't be reached: {error}") from error
        for address, free in every:
            async with free.take() as connector:
                if await _is_connected(connector, address, port):
                    yield connector
                    return
        raise PortError(f"nothing listens on port {port} there", hint="its program may not have begun to, or has ended")


async def _is_connected(connector: socket.socket, address: str, port: int) -> bool:
    try:
        code = connector.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            with anyio.fail_after(_CONNECT_SECONDS):
                await anyio.wait_writable(connector)
            code = connector.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        # TCP may connect a socket with itself, where the port is an ephemeral one.
        return code == 0 and connector.getsockname() != connector.getpeername()
    except (OSError, TimeoutError, anyio.ClosedResourceError):  # closed: the sandbox has ended
        return False


def _disconnect(connector: socket.socket) -> None:
    """Disconnect a socket, so that it can be used again."""
    if connector.fileno() >= 0 and _libc.connect(connector.fileno(), _UNSPECIFIED, len(_UNSPECIFIED)):
        code = ctypes.get_errno()
        if code != errno.ENOTCONN:
            raise OSError(code, os.strerror(code))
