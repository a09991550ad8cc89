"""Byte streams over non-blocking sockets, with or without TLS. The end of the connection or of TLS reads as ``b""``.

``torn`` tells whether a server ended TLS without close_notify: then anybody on the way may have cut the connection.
"""

import contextlib
import errno
import select
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, TypeVarTuple

import anyio
from anyio.lowlevel import checkpoint

CHUNK_BYTES = 1 << 16

_IN_A_ROW = 4
"""How many reads or writes in a row may succeed without waiting, before other tasks run. Else a fast peer could keep
the event loop to itself, and no run's limits would be enforced."""


_Wait: TypeAlias = Callable[[socket.socket], Awaitable[None]]
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class SniSocket(ssl.SSLSocket):
    """A TLS server's socket that keeps the client's server name.

    Attributes:
        asked_name: The client's server name (SNI); None if it sent none.
    """

    asked_name: str | None = None


class SocketStream:
    """One end of a TCP connection. One task at a time may receive, and one may send.

    Attributes:
        torn: Whether TLS of the server ended without close_notify, so that the data may be truncated.
    """

    def __init__(self, sock: socket.socket, pass_turn: Callable[[], Awaitable[None]] = checkpoint) -> None:
        """``pass_turn`` lets other tasks run."""
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.torn = False
        self._socket = sock
        self._waiting = 0
        self._in_a_row = 0
        self._pass_turn = pass_turn
        self._closed = False

    async def receive(self, size: int = CHUNK_BYTES) -> bytes:
        """Receive at most ``size`` bytes; waits for the first. ``b""`` at the end.

        Raises:
            OSError: The connection broke, or the data is no TLS.
        """
        await self._take_turns()
        try:
            return await self._retry(anyio.wait_readable, self._socket.recv, size)
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLEOFError) and error.reason != "UNEXPECTED_EOF_WHILE_READING":  # 3.11.2
                raise
            self.torn = True
            return b""

    async def peek(self) -> bytes:
        """Wait for the first byte, and return it without taking it from the stream. Not under TLS."""
        return await self._retry(anyio.wait_readable, self._socket.recv, 1, socket.MSG_PEEK)

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all data. Raises OSError if the connection broke."""
        await self._take_turns()
        view = memoryview(data)
        while view:
            view = view[await self._retry(anyio.wait_writable, self._socket.send, view) :]

    async def answer_tls(self, context: ssl.SSLContext) -> None:
        """Start TLS as the server. Raises OSError if the handshake failed."""
        await self._shake(context.wrap_socket(self._release(), server_side=True, do_handshake_on_connect=False))

    async def ask_tls(self, context: ssl.SSLContext, name: str) -> None:
        """Start TLS as the client of a server that proves to be ``name``.

        Raises:
            OSError: The handshake failed; ``ssl.SSLCertVerificationError`` if it is another server.
        """
        session = context.wrap_socket(
            self._release(), server_hostname=name, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        await self._shake(session)

    @property
    def asked_name(self) -> str | None:
        """The client's server name (SNI), if we are the TLS server."""
        return self._socket.asked_name if isinstance(self._socket, SniSocket) else None

    @property
    def certificate(self) -> bytes | None:
        """The TLS server's certificate, in DER; None without TLS."""
        return self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def tls_context(self) -> ssl.SSLContext | None:
        """The context of TLS, with the trusted authorities; None without TLS."""
        return self._socket.context if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def local_address(self) -> tuple[str, int]:
        """Address and port at this end."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def has_hung_up(self) -> bool:
        """Whether the peer will send nothing more, though there may be unread data: clients close both directions."""
        poll = select.poll()
        poll.register(self._socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def is_quiet(self) -> bool:
        """Whether the connection is open and has no unread data, so that it can be used again."""
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def finish(self) -> None:
        """End the sending direction. Receiving is still possible, except under TLS."""
        if isinstance(self._socket, ssl.SSLSocket):
            self.close()
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection without waiting. Sent data is still delivered; waiting tasks get an ``OSError``."""
        if self._closed:
            return
        self._closed = True
        if isinstance(self._socket, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()  # sends close_notify without waiting for the peer's
        if not self._waiting:
            self._socket.close()
            return
        # The waiting task wakes up and closes the socket. Were it closed here, the descriptor could belong to another
        # connection by then, and the task would remove that connection's registration from the event loop.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _release(self) -> socket.socket:
        if isinstance(self._socket, ssl.SSLSocket):
            raise OSError(errno.EISCONN, "it is TLS already")
        return self._socket

    async def _shake(self, session: ssl.SSLSocket) -> None:
        self._socket = session
        await self._retry(anyio.wait_readable, session.do_handshake)

    async def _take_turns(self) -> None:
        self._in_a_row += 1
        if self._in_a_row > _IN_A_ROW:
            self._in_a_row = 0
            await self._pass_turn()

    async def _retry(self, ready: _Wait, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Retry an operation until the socket does not block it; without TLS, ``ready`` waits for the socket."""
        while True:
            try:
                return work(*arguments)
            except BlockingIOError:
                await self._wait(ready)
            except ssl.SSLWantReadError:
                await self._wait(anyio.wait_readable)
            except ssl.SSLWantWriteError:
                await self._wait(anyio.wait_writable)

    async def _wait(self, ready: _Wait) -> None:
        self._waiting += 1
        self._in_a_row = 0
        try:
            await ready(self._socket)
        except anyio.BusyResourceError as error:
            # The peer can cause this: by a TLS key update while we can't send.
            raise OSError(errno.EBUSY, "it is waited for already") from error
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._socket.close()
        if self._closed:
            raise OSError(errno.EBADF, "closed while it was waited for")
