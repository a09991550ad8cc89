"""Sockets by which the host connects to ports of a sandbox: in its network namespace, but held by no process inside."""

import errno
import os
import socket
from collections.abc import Sequence

import anyio
from msgspec import Struct, field

from gloveport.errors import GuestError


class Connectors(Struct, eq=False):
    """The connectors of one sandbox. There are many, and most sandboxes end before anybody connects: so the received
    descriptors are checked on first use.

    Attributes:
        families: The expected address families, in order.
        is_closed: Whether the sandbox has gone, or other descriptors came.
    """

    families: Sequence[int]
    _descriptors: list[int]
    """Descriptors that are not checked yet."""

    _sockets: list[socket.socket] = field(default_factory=list)
    is_closed: bool = False

    def open(self) -> Sequence[socket.socket]:
        """All connectors, unconnected. They don't block, and close with the sandbox.

        Raises:
            GuestError: Other descriptors came.
        """
        try:
            while self._descriptors:
                self._sockets.append(socket.socket(fileno=self._descriptors[0]))
                del self._descriptors[0]
                self._sockets[-1].settimeout(0)
                _require_unused(self._sockets[-1], self.families[len(self._sockets) - 1])
        except OSError as error:
            self.close()
            raise GuestError("what it sent is no unused socket") from error
        return self._sockets

    def close(self) -> None:
        """Close all connectors. Tasks that wait for one are notified: see ``console.close``."""
        self.is_closed = True
        for number in self._descriptors:
            os.close(number)
        for one in self._sockets:
            anyio.notify_closing(one)
            one.close()
        self._descriptors, self._sockets = [], []


def _require_unused(connector: socket.socket, family: int) -> None:
    """Raise OSError if it is of another kind, listens or is bound."""
    is_listening = connector.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    kind = connector.family, connector.type
    if kind != (family, socket.SOCK_STREAM) or is_listening or connector.getsockname()[1] != 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
