"""PostgreSQL: answers a program's start-up, logs in to the server for it, and then passes on the bytes.

Programs are asked for no password. They may open TLS to us, as their connection strings often demand. What they say of
themselves when they start is an allow-list: the user is the owner's, and ``options``, by which poolers are told to whom
a login goes, are taken apart. A query is cancelled only where its session is one of the run's own.
"""

import contextlib
import re
import struct
from collections.abc import Mapping
from typing import Final

import anyio

from gloveport.egress.database import (
    LOGIN_SECONDS,
    RejectedError,
    Server,
    fetch_password,
    hang_up,
    limit_login,
    read_exactly,
    route_to,
)
from gloveport.egress.messages import Route
from gloveport.egress.outlet import Outlet
from gloveport.egress.postgres_login import log_in, pack, pack_error, pack_texts, read_message
from gloveport.egress.tunnel import admit_connection, join
from gloveport.egress.wire import Wire
from gloveport.errors import Denied, UpstreamError
from gloveport.model.egress import Api, Connect, Postgres
from gloveport.policy.wording import FINAL, listed, shown

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_VERSION_3_0, _LATEST_VERSION_3 = 3 << 16, (4 << 16) - 1
_MOST_NEGOTIATIONS = 2
_LONGEST_START = 10_000  # as servers have it
_LONGEST_NAME = 63  # likewise, in bytes
_KEY_BYTES = 8
_MOST_SETTINGS = 256
"""That a server may tell between its yes and the first query."""

_PARAMETERS: Final = {
    name.lower(): name
    for name in (
        *("application_name", "bytea_output", "client_encoding", "client_min_messages", "DateStyle", "IntervalStyle"),
        *("default_transaction_isolation", "default_transaction_read_only", "extra_float_digits", "jit", "search_path"),
        *("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout", "TimeZone"),
    )
}
"""With what a session may begin, besides a database. All of it can be set by SQL as well."""

_EXTENSION = "_pq_."
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_OPTION = re.compile(r"(--)?([A-Za-z_-]+)=(.*)", re.DOTALL)
_NOT_ALLOWED, _NO_SERVER, _MALFORMED = "28000", "08001", "08P01"  # SQLSTATE


async def serve_postgres(outlet: Outlet, wire: Wire, name: str, api: Api, host: str, port: int) -> None:
    """Answer a PostgreSQL client until it or the server has ended. Why there is no session is told as servers do.

    Raises:
        OSError: The program's end broke, or says nothing.
        AuditError: It can't be written down.
    """
    try:
        with anyio.fail_after(LOGIN_SECONDS):
            code, body = await _read_start(outlet, wire, host)
        asked = {} if code == _CANCEL else _parse_parameters(body)
    except TimeoutError as error:
        raise OSError("it takes too long to say what it wants") from error
    except Denied as denial:
        outlet.deny(denial, method="CONNECT", url=f"postgres://{host}:{port}")
        await hang_up(wire, _make_error(outlet, denial, _MALFORMED))
        return
    (auth,) = (auth for auth in api.auth if isinstance(auth, Postgres))
    route = route_to(name, api, auth, host, port)
    if code == _CANCEL:
        with contextlib.suppress(Denied, UpstreamError):  # to which servers answer nothing either
            await _cancel(outlet, route, body)
        return
    try:
        await _serve_session(outlet, wire, route, auth, asked, code)
    except RejectedError as error:
        await hang_up(wire, error.answer)
    except (Denied, UpstreamError) as error:
        await hang_up(wire, _make_error(outlet, error, _NOT_ALLOWED if isinstance(error, Denied) else _NO_SERVER))


async def _serve_session(
    outlet: Outlet, wire: Wire, route: Route, auth: Postgres, asked: Mapping[str, str], version: int
) -> None:
    database = _choose_database(auth, asked)
    action = Connect(scheme="postgres", host=route.host, port=route.port, database=database)
    async with admit_connection(outlet, route.api, action) as (ending, count), contextlib.AsyncExitStack() as stack:
        ending.fields["user"] = auth.username
        parameters = {"database": database, **_allow_parameters(asked)}
        password = await fetch_password(outlet, route.api, auth, ending)
        async with limit_login(route):
            server = stack.enter_context(contextlib.closing(await _connect(outlet, route)))
            try:
                await log_in(outlet, server, auth, password, parameters)
            except RejectedError:
                outlet.gateway.vault.forget(auth.secret)
                raise
            await wire.send(_welcome(asked, version))
            for _ in range(_MOST_SETTINGS):
                kind, body = await read_message(outlet, server)
                if kind == b"K" and len(body) == _KEY_BYTES:
                    session = (route.host, route.port, body)
                    outlet.sessions.add(session)
                    stack.callback(outlet.sessions.discard, session)
                elif kind not in {b"S", b"N", b"Z"}:
                    raise server.refuse("does not speak as PostgreSQL does.")
                await wire.send(pack(kind, body))
                if kind == b"Z":
                    break
            else:
                raise server.refuse("has more to say about itself than there is to say.")
        await join(wire, server.wire, count)


async def _cancel(outlet: Outlet, route: Route, key: bytes) -> None:
    """Ask for the end of a query of the run's own. Others' keys are short enough to be guessed."""
    if (route.host, route.port, key) not in outlet.sessions:
        denial = Denied("no_such_session", "No session of this run can be cancelled by that key.", hint=FINAL)
        outlet.deny(denial, method="CONNECT", url=f"postgres://{route.host}:{route.port}")
        return
    action = Connect(scheme="postgres", host=route.host, port=route.port)
    async with admit_connection(outlet, route.api, action) as (ending, _), limit_login(route):
        ending.fields["cancels"] = True
        with contextlib.closing(await _connect(outlet, route)) as server:
            await server.send(struct.pack("!II", 8 + len(key), _CANCEL) + key)
            with contextlib.suppress(OSError):
                await server.wire.receive()  # it ends when that is done


async def _connect(outlet: Outlet, route: Route) -> Server:
    server = await Server.connect(outlet, route)
    if route.scheme == "https":
        try:
            await _ask_for_tls(server)
            await server.secure(outlet, ("postgresql",))
        except BaseException:
            server.close()
            raise
    return server


async def _ask_for_tls(server: Server) -> None:
    await server.send(struct.pack("!II", 8, _SSL))
    # One byte and no more: what may follow it unencrypted is no handshake to TLS.
    if await server.read(1) != b"S":
        hint = "The owner has to turn it on there; `tls = false` is for addresses that are not public."
        raise UpstreamError("tls_failed", f"{server.route.host}:{server.route.port} does not offer TLS.", hint=hint)


async def _read_start(outlet: Outlet, wire: Wire, host: str) -> tuple[int, bytes]:
    """Read the first message that is no question for encryption: its code, and what stands behind it.

    Nothing is read ahead: what a program sends unencrypted behind its question for TLS is no handshake to TLS.
    """
    for _ in range(_MOST_NEGOTIATIONS + 1):
        length, code = struct.unpack("!II", await read_exactly(wire, 8))
        if (length, code) == (8, _SSL):
            await wire.send(b"S")
            await wire.answer_tls(outlet.gateway.authority.context(host))
        elif (length, code) == (8, _GSS):
            await wire.send(b"N")
        elif 8 <= length <= _LONGEST_START and (code == _CANCEL or _VERSION_3_0 <= code <= _LATEST_VERSION_3):
            return code, await read_exactly(wire, length - 8)
        else:
            break
    raise _malformed("it does not begin as version 3 of the protocol does")


def _parse_parameters(body: bytes) -> dict[str, str]:
    fields = body[:-1].split(b"\0")
    if not body.endswith(b"\0") or fields.pop() or len(fields) % 2:
        raise _malformed("its parameters are no list of names and values")
    try:
        texts = [field.decode() for field in fields]
    except UnicodeDecodeError:
        raise _malformed("its parameters are not in UTF-8") from None
    names = texts[::2]
    parameters = dict(zip(names, texts[1::2], strict=True))
    if not all(names) or len(parameters) < len(names):
        raise _malformed("its parameters have no name, or one twice")
    if len(parameters.get("database", "").encode()) > _LONGEST_NAME:
        raise _malformed("the name of its database is too long")
    return parameters


def _malformed(what: str) -> Denied:
    return Denied("bad_request", f"This is no start of a session: {what}.", hint="Use a client of PostgreSQL.")


def _choose_database(auth: Postgres, asked: Mapping[str, str]) -> str:
    """The database that is meant. Where a program names none, clients name the one of the user's name."""
    database = asked.get("database", "")
    if auth.databases and database not in auth.databases and database in {"", asked.get("user")}:
        return auth.databases[0]
    return database or auth.username


def _allow_parameters(asked: Mapping[str, str]) -> dict[str, str]:
    """What of a start is passed on, besides the database.

    Raises:
        Denied: There is more than is allowed.
    """
    options = _parse_options(asked.get("options", ""))
    passed = {key: text for key, text in asked.items() if key not in {"user", "database", "options"}} | options
    parameters = {}
    for key, text in passed.items():
        if key.startswith(_EXTENSION):
            continue
        if key.lower() not in _PARAMETERS:
            hint = f"Use SET after connecting. It can begin with: {listed(_PARAMETERS.values())}. {FINAL}"
            raise Denied("parameter_not_allowed", f"A session can't begin with {shown(key)}.", hint=hint)
        parameters[_PARAMETERS[key.lower()]] = text
    return parameters


def _parse_options(text: str) -> dict[str, str]:
    """Take ``-c name=value --name=value`` apart as servers do: to poolers other words say whose server is meant.

    Raises:
        Denied: It holds something else.
    """
    options = {}
    words = iter(_WORD.findall(text))
    for word in words:
        option = next(words, "") if word == "-c" else word.removeprefix("-c")
        found = _OPTION.fullmatch(re.sub(r"\\(.)", r"\1", option, flags=re.DOTALL))
        if found is None or bool(found[1]) == word.startswith("-c"):
            hint = f'Write options as "-c name=value", or use SET after connecting. {FINAL}'
            raise Denied("parameter_not_allowed", f"A session can't begin with {shown(word)}.", hint=hint)
        options[found[2].replace("-", "_")] = found[3]
    return options


def _welcome(asked: Mapping[str, str], version: int) -> bytes:
    """Say that the program is logged in, and by which protocol."""
    extensions = [key for key in asked if key.startswith(_EXTENSION)]
    welcome = pack(b"R", bytes(4))
    if version == _VERSION_3_0 and not extensions:
        return welcome
    unknown = struct.pack("!II", _VERSION_3_0, len(extensions)) + pack_texts(*extensions)
    return pack(b"v", unknown) + welcome


def _make_error(outlet: Outlet, error: Denied | UpstreamError, sqlstate: str) -> bytes:
    return pack_error(sqlstate, outlet.message(error), f"Gloveport: {error.code}.", outlet.hint(error))
