"""Shared parts of database logins: the password, the server's connection, refusals."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Self

import anyio

from gloveport.egress.outbound_session import OWNERS_HINT, EgressSession
from gloveport.egress.transport.dial import limit_time
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import ConfigError, UpstreamError
from gloveport.guard import Ending
from gloveport.model.egress import Api, DatabaseAuth
from gloveport.untrusted_text import printable

LOGIN_SECONDS = 30.0
"""Time limit for a program's first message, and for a server's login."""

_LINGER_SECONDS = 2.0
_MOST_OF_A_MESSAGE = 500

_log = logging.getLogger(__name__)


class LoginRejectedError(UpstreamError):
    """The database has refused the login.

    Attributes:
        answer: The database's error in its own protocol, scrubbed and bounded. Only the program gets it.
    """

    def __init__(self, route: Route, answer: bytes) -> None:
        super().__init__(
            "login_refused",
            f"{route.host}:{route.port} has refused the login.",
            hint="The program got the server's own words. Too many connections and a restart pass; else the owner has "
            f"to check the account in the configuration of {route.api}.",
        )
        self.answer = answer


def route_to(name: str, api: Api, auth: DatabaseAuth, host: str, port: int) -> Route:
    """Make the route to a database by the operator's configuration."""
    return Route.to(name, api, "https" if auth.tls else "http", host, port)


async def fetch_password(session: EgressSession, name: str, auth: DatabaseAuth, ending: Ending) -> str:
    """Fetch the password of an account, which is scrubbed from then on.

    Raises:
        UpstreamError: ``secret_unavailable``.
    """
    try:
        return await session.gateway.vault.get(f"{name}.{auth.kind}", auth.secret)
    except ConfigError as error:
        ending.fields["secret"] = str(error.args[0])
        _log.warning("no connection for %s: %s", name, error)
        reason = f"The password of the API {name!r} can't be had."
        raise UpstreamError("secret_unavailable", reason, hint=OWNERS_HINT) from error


def quote(session: EgressSession, text: bytes) -> str:
    """Quote a server's text for the program: scrubbed, printable and bounded."""
    return printable(session.clean(text.decode(errors="replace")))[:_MOST_OF_A_MESSAGE]


async def read_exactly(wire: SocketStream, size: int) -> bytes:
    """Read exactly so many bytes, and none beyond them. Raises OSError if the connection ends before, or has broken."""
    data = b""
    while len(data) < size:
        piece = await wire.receive(size - len(data))
        if not piece:
            raise ConnectionResetError("it ended too early")
        data += piece
    return data


async def hang_up(wire: SocketStream, answer: bytes) -> None:
    """Send a program the reason why it gets no session, and end the connection, after reading from it for a while.

    Closing at once would reset the connection and lose the answer: programs send their first command without waiting.

    Raises:
        OSError: The program has disconnected.
    """
    await wire.send(answer)
    wire.finish()
    with anyio.move_on_after(_LINGER_SECONDS), contextlib.suppress(OSError):
        while await wire.receive():
            pass


def limit_login(route: Route) -> AbstractAsyncContextManager[None]:
    """Bound the time of a login.

    Raises:
        UpstreamError: ``upstream_timeout``.
    """
    return limit_time(route, LOGIN_SECONDS, "log in to")


class DatabaseServer:
    """A database's end of a connection during the login."""

    def __init__(self, wire: SocketStream, route: Route) -> None:
        self.wire = wire
        self.route = route

    @classmethod
    async def connect(cls, session: EgressSession, route: Route) -> Self:
        """Open a connection, without TLS. Raises UpstreamError if the database can't be reached."""
        return cls(await session.gateway.upstreams.dialer.connect(route), route)

    async def secure(self, session: EgressSession, protocols: Sequence[str]) -> None:
        """Start TLS. Raises UpstreamError if the server's certificate can't be verified."""
        await session.gateway.upstreams.dialer.secure(self.wire, self.route, protocols)

    async def send(self, data: bytes) -> None:
        """Send data.

        Raises:
            UpstreamError: ``upstream_broke_off``.
        """
        with self._tell_break():
            await self.wire.send(data)

    async def read(self, size: int) -> bytes:
        """Read exactly so many bytes.

        Raises:
            UpstreamError: ``upstream_broke_off``.
        """
        with self._tell_break():
            return await read_exactly(self.wire, size)

    def close(self) -> None:
        """Close the connection."""
        self.wire.close()

    def refuse(self, what: str, *, hint: str = "") -> UpstreamError:
        """Make the error of a failed login: ``what`` completes a sentence that begins with the server's name."""
        return UpstreamError("bad_response", f"{self.route.host}:{self.route.port} {what}", hint=hint)

    @contextlib.contextmanager
    def _tell_break(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self.route.host}:{self.route.port} has ended the connection during the login."
            raise UpstreamError("upstream_broke_off", message) from error
