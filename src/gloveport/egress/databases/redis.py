"""Serves Redis clients: logs in to the server for them, and then relays bytes.

A program that begins with its own login, as libraries do if they were given any password, gets the answer that it is
logged in. Later logins are passed on: a program that knows another account's password may use it, as everywhere.
"""

import contextlib
import re
from collections.abc import Sequence

from gloveport.egress.databases.login import (
    DatabaseServer,
    LoginRejectedError,
    fetch_password,
    hang_up,
    limit_login,
    quote,
    route_to,
)
from gloveport.egress.outbound_session import EgressSession
from gloveport.egress.transport.stream import SocketStream
from gloveport.egress.tunnel import admit_connection, join
from gloveport.errors import Denied, UpstreamError
from gloveport.model.egress import Api, Connect, Redis

_HANDSHAKE = b"\x16"  # TLS record type
_OK = b"+OK\r\n"
_LONGEST_LINE = 1024
_LONGEST_LOGIN = 4096
_COMMAND = re.compile(rb"\*([1-9][0-9]?)\r\n")
_WORD = re.compile(rb"\$([0-9]{1,4})\r\n")
_LOGIN = re.compile(rb"\*[1-9][0-9]?\r\n\$[45]\r\n(?:AUTH|HELLO)\r\n", re.IGNORECASE)
_RIGHTS = {
    (b"CONFIG", b"GET", b"requirepass"): "read the password (CONFIG GET)",
    (b"ACL", b"SETUSER", b"default"): "give itself every right (ACL SETUSER)",  # without a rule, a no-op
}
_PASSING = re.compile(rb"-(?!ERR |NOPERM |NOAUTH )")
"""Errors of a server that is busy or loading; not those of an unknown or forbidden command."""
_LONGEST_BEGINNING = len(b"*99\r\n$5\r\nHELLO\r\n")


async def serve_redis(session: EgressSession, wire: SocketStream, name: str, api: Api, host: str, port: int) -> None:
    """Serve a Redis client until it or the server has ended. A refusal is sent as Redis' own error.

    Raises:
        OSError: The program's connection broke.
        AuditError: The audit log can't be written.
    """
    first = await wire.peek()  # Redis clients send first
    if not first:
        return
    if first == _HANDSHAKE:
        await wire.answer_tls(session.gateway.authority.context(host))
    (auth,) = (auth for auth in api.auth if isinstance(auth, Redis))
    action = Connect(scheme="redis", host=host, port=port)
    try:
        async with admit_connection(session, name, action) as (ending, count):
            if auth.username:
                ending.fields["user"] = auth.username
            password = await fetch_password(session, name, auth, ending)
            route = route_to(name, api, auth, host, port)
            async with limit_login(route):
                server = await DatabaseServer.connect(session, route)
            with contextlib.closing(server):
                async with limit_login(route):
                    if auth.tls:
                        await server.secure(session, ())
                    await _log_in(session, server, auth, password)
                pending = await _take_login(wire)
                await server.send(pending)
                count.sent += len(pending)
                await join(wire, server.wire, count)
    except LoginRejectedError as error:
        await hang_up(wire, error.answer)
    except (Denied, UpstreamError) as error:
        answer = f"-ERR Gloveport: {session.message(error)} {session.hint(error)}".rstrip()
        await hang_up(wire, answer.encode() + b"\r\n")


async def _log_in(session: EgressSession, server: DatabaseServer, auth: Redis, password: str) -> None:
    # By RESET a program becomes the default user again, so that must not have rights either.
    hint = "The owner has to give the default user a password, or to turn it off: ACL SETUSER default off"
    await _require_few_rights(session, server, "Whoever has no password", hint)
    words = [b"AUTH", *([auth.username.encode()] if auth.username else []), password.encode()]
    answer = await _ask(server, words)
    if answer.startswith(b"-"):
        session.gateway.vault.forget(auth.secret)
        raise _reject(session, server, answer)
    if answer != _OK:
        raise server.refuse("does not speak as Redis does.")
    hint = "The owner has to make a user without that right: ACL SETUSER agent on >PASSWORD ~* &* +@all -@admin"
    await _require_few_rights(session, server, "The account", hint)


async def _require_few_rights(session: EgressSession, server: DatabaseServer, who: str, hint: str) -> None:
    """Require that this user can't read the account's password, which the server stores in clear text.

    Raises:
        UpstreamError: The user can, or it can't be determined now.
    """
    for words, what in _RIGHTS.items():
        answer = await _ask(server, words)
        if _PASSING.match(answer):  # a temporary error does not show that the user lacks the right
            raise _reject(session, server, answer)
        if not answer.startswith(b"-"):
            message = f"{who} may {what} at {server.route.host}:{server.route.port}."
            raise UpstreamError("secret_readable", message, hint=hint)


def _reject(session: EgressSession, server: DatabaseServer, answer: bytes) -> LoginRejectedError:
    return LoginRejectedError(server.route, b"-%s\r\n" % quote(session, answer[1:-2]).encode())


async def _ask(server: DatabaseServer, words: Sequence[bytes]) -> bytes:
    """Send a command, and return the first line of its answer; servers send nothing unasked."""
    await server.send(_pack(words))
    line = b""
    while not line.endswith(b"\r\n") and len(line) < _LONGEST_LINE:
        line += await server.read(1)
    return line


async def _take_login(wire: SocketStream) -> bytes:
    """Answer the login that a program begins with, if it does; return the data to be passed on."""
    data = b""
    while len(data) <= _LONGEST_LOGIN and (len(data) < _LONGEST_BEGINNING or _LOGIN.match(data)):
        piece = await wire.receive(_LONGEST_LOGIN)
        data += piece
        try:
            words, rest = _parse_command(data)
        except ValueError:  # no command, or one with a long word
            break
        name = words[0].upper() if words else b""
        if name == b"AUTH":
            await wire.send(_OK)
            return rest
        if name == b"HELLO":
            return _pack(_without_login(words)) + rest
        if words or not piece or not data.startswith(b"*"):
            break
    return data


def _parse_command(data: bytes) -> tuple[list[bytes], bytes]:
    """Parse the first command into words, if it is complete; return them and the rest of the data.

    Raises:
        ValueError: The data is no command, or a long one.
    """
    words: list[bytes] = []
    command = _COMMAND.match(data)
    if command is None:
        return words, data
    at = command.end()
    while len(words) < int(command[1]):
        word = _WORD.match(data, at)
        if word is None and b"\r\n" in data[at:]:
            raise ValueError
        if word is None or len(data) < (end := word.end() + int(word[1]) + 2):
            return [], data
        words.append(data[word.end() : end - 2])
        at = end
    return words, data[at:]


def _without_login(words: list[bytes]) -> list[bytes]:
    """``HELLO 3 AUTH user password SETNAME name`` without user and password."""
    at = next((number for number, word in enumerate(words) if word.upper() == b"AUTH"), len(words))
    return [*words[:at], *words[at + 3 :]]


def _pack(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
