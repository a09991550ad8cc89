"""Serves PostgreSQL clients: answers their start-up, logs in to the server for them, and then relays bytes.

Programs are not asked for a password. They may use TLS to us, as their connection strings often demand. A program may
cancel only queries of its own run's sessions.
"""

import contextlib
import struct
from collections.abc import Mapping

import anyio

from gloveport.egress.databases.login import (
    LOGIN_SECONDS,
    DatabaseServer,
    LoginRejectedError,
    fetch_password,
    hang_up,
    limit_login,
    read_exactly,
    route_to,
)
from gloveport.egress.databases.postgres_login import log_in, pack, pack_error, pack_texts, read_message
from gloveport.egress.databases.postgres_startup import (
    EXTENSION,
    allow_parameters,
    choose_database,
    malformed_start,
    parse_parameters,
)
from gloveport.egress.outbound_session import EgressSession
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.egress.tunnel import admit_connection, join
from gloveport.errors import Denied, UpstreamError
from gloveport.model.egress import Api, Connect, Postgres
from gloveport.policy.wording import FINAL

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_VERSION_3_0, _LATEST_VERSION_3 = 3 << 16, (4 << 16) - 1
_MOST_NEGOTIATIONS = 2
_LONGEST_START = 10_000  # as servers have it
_KEY_BYTES = 8
_MOST_SETTINGS = 256
"""Most messages of a server between a successful login and the first query."""

_NOT_ALLOWED, _NO_SERVER, _MALFORMED = "28000", "08001", "08P01"  # SQLSTATE


async def serve_postgres(session: EgressSession, wire: SocketStream, name: str, api: Api, host: str, port: int) -> None:
    """Serve a PostgreSQL client until it or the server has ended. A refusal is sent as PostgreSQL's own error.

    Raises:
        OSError: The program's connection broke, or is silent.
        AuditError: The audit log can't be written.
    """
    try:
        with anyio.fail_after(LOGIN_SECONDS):
            code, body = await _read_start(session, wire, host)
        startup = {} if code == _CANCEL else parse_parameters(body)
    except TimeoutError as error:
        raise OSError("it takes too long to say what it wants") from error
    except Denied as denial:
        session.deny(denial, method="CONNECT", url=f"postgres://{host}:{port}")
        await hang_up(wire, _make_error(session, denial, _MALFORMED))
        return
    (auth,) = (auth for auth in api.auth if isinstance(auth, Postgres))
    route = route_to(name, api, auth, host, port)
    if code == _CANCEL:
        with contextlib.suppress(Denied, UpstreamError):  # servers don't answer a cancel request either
            await _cancel(session, route, body)
        return
    try:
        await _serve_session(session, wire, route, auth, startup, code)
    except LoginRejectedError as error:
        await hang_up(wire, error.answer)
    except (Denied, UpstreamError) as error:
        await hang_up(wire, _make_error(session, error, _NOT_ALLOWED if isinstance(error, Denied) else _NO_SERVER))


async def _serve_session(
    session: EgressSession, wire: SocketStream, route: Route, auth: Postgres, startup: Mapping[str, str], version: int
) -> None:
    database = choose_database(auth, startup)
    action = Connect(scheme="postgres", host=route.host, port=route.port, database=database)
    async with admit_connection(session, route.api, action) as (ending, count), contextlib.AsyncExitStack() as stack:
        ending.fields["user"] = auth.username
        parameters = {"database": database, **allow_parameters(startup)}
        password = await fetch_password(session, route.api, auth, ending)
        async with limit_login(route):
            server = stack.enter_context(contextlib.closing(await _connect(session, route)))
            try:
                await log_in(session, server, auth, password, parameters)
            except LoginRejectedError:
                session.gateway.vault.forget(auth.secret)
                raise
            await wire.send(_welcome(startup, version))
            opened = (route.host, route.port, await _pass_settings(session, wire, server))
        session.sessions.add(opened)
        stack.callback(session.sessions.discard, opened)
        await join(wire, server.wire, count)


async def _pass_settings(session: EgressSession, wire: SocketStream, server: DatabaseServer) -> bytes:
    """Relay a server's messages until it is ready for queries; return the key that cancels queries of the session.

    Raises:
        OSError: The program's connection broke.
        UpstreamError: The server does not become ready.
    """
    key = b""
    for _ in range(_MOST_SETTINGS):
        kind, body = await read_message(session, server)
        if kind not in {b"S", b"N", b"K", b"Z"} or (kind == b"K" and len(body) != _KEY_BYTES):
            break
        key = body if kind == b"K" else key
        await wire.send(pack(kind, body))
        if kind == b"Z":
            return key
    raise server.refuse("does not become ready for queries as PostgreSQL does.")


async def _cancel(session: EgressSession, route: Route, key: bytes) -> None:
    """Cancel a query of the run's own sessions only: keys of other sessions are short enough to be guessed."""
    if not key or (route.host, route.port, key) not in session.sessions:
        denial = Denied("no_such_session", "No session of this run can be cancelled by that key.", hint=FINAL)
        session.deny(denial, method="CONNECT", url=f"postgres://{route.host}:{route.port}")
        return
    action = Connect(scheme="postgres", host=route.host, port=route.port)
    async with admit_connection(session, route.api, action) as (ending, _), limit_login(route):
        ending.fields["cancels"] = True
        with contextlib.closing(await _connect(session, route)) as server:
            await server.send(struct.pack("!II", 8 + len(key), _CANCEL) + key)
            with contextlib.suppress(OSError):
                await server.wire.receive()  # the server closes the connection when it has cancelled the query


async def _connect(session: EgressSession, route: Route) -> DatabaseServer:
    server = await DatabaseServer.connect(session, route)
    if route.scheme == "https":
        try:
            await _ask_for_tls(server)
            await server.secure(session, ("postgresql",))
        except BaseException:
            server.close()
            raise
    return server


async def _ask_for_tls(server: DatabaseServer) -> None:
    await server.send(struct.pack("!II", 8, _SSL))
    # One byte and no more: a man in the middle could inject unencrypted bytes after it.
    if await server.read(1) != b"S":
        hint = "The owner has to turn it on there; `tls = false` is for private addresses."
        raise UpstreamError("tls_failed", f"{server.route.host}:{server.route.port} does not offer TLS.", hint=hint)


async def _read_start(session: EgressSession, wire: SocketStream, host: str) -> tuple[int, bytes]:
    """Read the first message that is no request for encryption; return its code, and the rest.

    Nothing is read ahead: unencrypted bytes after a request for TLS must not be taken for part of the TLS session.
    """
    for _ in range(_MOST_NEGOTIATIONS + 1):
        length, code = struct.unpack("!II", await read_exactly(wire, 8))
        if (length, code) == (8, _SSL):
            await wire.send(b"S")
            await wire.answer_tls(session.gateway.authority.context(host))
        elif (length, code) == (8, _GSS):
            await wire.send(b"N")
        elif 8 <= length <= _LONGEST_START and (code == _CANCEL or _VERSION_3_0 <= code <= _LATEST_VERSION_3):
            return code, await read_exactly(wire, length - 8)
        else:
            break
    raise malformed_start("it does not begin as version 3 of the protocol does")


def _welcome(startup: Mapping[str, str], version: int) -> bytes:
    """Make the answer that the program is logged in, with the negotiated protocol."""
    extensions = [key for key in startup if key.startswith(EXTENSION)]
    welcome = pack(b"R", bytes(4))
    if version == _VERSION_3_0 and not extensions:
        return welcome
    unknown = struct.pack("!II", _VERSION_3_0, len(extensions)) + pack_texts(*extensions)
    return pack(b"v", unknown) + welcome


def _make_error(session: EgressSession, error: Denied | UpstreamError, sqlstate: str) -> bytes:
    return pack_error(sqlstate, session.message(error), f"Gloveport: {error.code}.", session.hint(error))
