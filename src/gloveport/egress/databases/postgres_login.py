"""Logs in to a PostgreSQL server: by SCRAM-SHA-256, with channel binding if the server supports it; or, to a server
that TLS has verified, by the method that it demands.

Without TLS only SCRAM is used: it does not send the password, and the server proves that it knows the password.
"""

import hashlib
import importlib
import re
import struct

from anyio import to_thread
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes

from gloveport.egress.databases.login import DatabaseServer, LoginRejectedError, quote
from gloveport.egress.outbound_session import EgressSession
from gloveport.errors import UpstreamError
from gloveport.fairness import SMALL_BYTES, compute
from gloveport.model.egress import Postgres

MOST_ITERATIONS = 600_000
"""Most iterations of the password's hash: the server chooses the number, and each takes our time."""

_OK, _CLEARTEXT, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12
_UNBOUND_MECHANISMS = ("SCRAM-SHA-256",)
_MECHANISMS = ("SCRAM-SHA-256-PLUS", *_UNBOUND_MECHANISMS)
_WEAK_HASHES = (hashes.MD5, hashes.SHA1)
_LONGEST_MESSAGE = 1 << 14
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_CONNECTION_REFUSED = "08004"
_HINT = "The owner has to set the account's password by SCRAM, and `scram-sha-256` in the server's pg_hba.conf."


def pack(kind: bytes, body: bytes) -> bytes:
    """Write a message."""
    return kind + struct.pack("!I", len(body) + 4) + body


def pack_texts(*texts: str) -> bytes:
    """Write texts that end in a null character each."""
    return b"".join(text.encode() + b"\0" for text in texts)


def pack_error(sqlstate: str, message: str, detail: str, hint: str) -> bytes:
    """Write an error, after which the connection ends; details and hints only where there are some."""
    fields = {"S": "FATAL", "V": "FATAL", "C": sqlstate, "M": message, "D": detail, "H": hint}
    return pack(b"E", pack_texts(*(f"{kind}{text}" for kind, text in fields.items() if text)) + b"\0")


async def read_message(session: EgressSession, server: DatabaseServer) -> tuple[bytes, bytes]:
    """Read a message of the server: its kind and its body.

    Raises:
        LoginRejectedError: It is an error.
        UpstreamError: It is none, or too long.
    """
    kind, length = struct.unpack("!cI", await server.read(5))
    if not 4 <= length <= _LONGEST_MESSAGE:
        raise server.refuse("does not speak as PostgreSQL does.")
    body = await server.read(length - 4)
    if kind == b"E":
        texts = {field[:1]: quote(session, field[1:]) for field in body.split(b"\0") if field}
        sqlstate = texts.get(b"C", "")
        sqlstate = sqlstate if _SQLSTATE.fullmatch(sqlstate) else _CONNECTION_REFUSED
        raise LoginRejectedError(
            server.route, pack_error(sqlstate, texts.get(b"M", ""), texts.get(b"D", ""), texts.get(b"H", ""))
        )
    return kind, body


async def log_in(
    session: EgressSession, server: DatabaseServer, auth: Postgres, password: str, parameters: dict[str, str]
) -> None:
    """Begin a session, until the server has said yes. The connection has TLS if the account demands it; ``parameters``
    are those of the start-up message besides the user.

    Raises:
        UpstreamError: The server refuses, does not prove its identity, or demands an unsupported method.
    """
    texts = pack_texts(*(text for pair in {"user": auth.username, **parameters}.items() for text in pair))
    await server.send(struct.pack("!II", 9 + len(texts), 3 << 16) + texts + b"\0")
    method, data = await _read_demand(session, server)
    if method == _SASL:
        await _log_in_by_scram(session, server, password, data)
    elif not auth.tls:
        raise server.refuse("does not prove that it knows the password, and is not reached by TLS.", hint=_HINT)
    elif method == _CLEARTEXT:
        await server.send(pack(b"p", pack_texts(password)))
    elif method == _MD5 and len(data) == 4:
        await server.send(pack(b"p", pack_texts(f"md5{_md5(_md5(password + auth.username).encode() + data)}")))
    elif method == _OK:  # a verified server that trusts connections from here needs no password
        return
    else:
        raise server.refuse(f"asks for a login of a kind that Gloveport does not know ({method}).", hint=_HINT)
    method, _ = await _read_demand(session, server)
    if method != _OK:
        raise server.refuse("asks for more than one login.")


async def _read_demand(session: EgressSession, server: DatabaseServer) -> tuple[int, bytes]:
    """Read the server's next authentication request."""
    kind, body = await read_message(session, server)
    if kind != b"R" or len(body) < 4:
        raise server.refuse("does not speak as PostgreSQL does.")
    return int.from_bytes(body[:4]), body[4:]


async def _log_in_by_scram(session: EgressSession, server: DatabaseServer, password: str, offered: bytes) -> None:
    # Imported late: it takes 16 ms and 3 MiB, which most configurations do not need.
    scramp = await to_thread.run_sync(importlib.import_module, "scramp")
    binding = None if server.wire.certificate is None else _make_binding(server.wire.certificate)
    candidates = _MECHANISMS if binding else _UNBOUND_MECHANISMS
    mechanisms = [name for name in candidates if name.encode() in offered.split(b"\0")]
    if not mechanisms:
        raise server.refuse("offers no login of a kind that Gloveport knows.", hint=_HINT)
    try:
        # PostgreSQL ignores the user name in SCRAM, but it may not be empty.
        client = scramp.ScramClient(mechanisms, "*", password, channel_binding=binding)
    except scramp.ScramException as error:
        message = f"The password of the API {server.route.api!r} has characters that SCRAM does not allow."
        raise UpstreamError("secret_unavailable", message, hint="The owner has to set another.") from error
    try:
        first = client.get_client_first().encode()
        name = pack_texts(client.mechanism_name)
        await server.send(pack(b"p", name + struct.pack("!I", len(first)) + first))
        client.set_server_first(await _read_step(session, server, _SASL_CONTINUE))
        iterations = int(client.iterations)
        if iterations > MOST_ITERATIONS:
            raise server.refuse(f"wants the password hashed {iterations} times, of at most {MOST_ITERATIONS}.")
        async with session.load.hashes:
            final = await compute(iterations + SMALL_BYTES, client.get_client_final)
        await server.send(pack(b"p", final.encode()))
        client.set_server_final(await _read_step(session, server, _SASL_FINAL))
    except (scramp.ScramException, ValueError) as error:
        raise server.refuse("has not proved that it knows the password.", hint=_HINT) from error


async def _read_step(session: EgressSession, server: DatabaseServer, step: int) -> str:
    method, data = await _read_demand(session, server)
    if method != step:
        raise server.refuse("does not log in by SCRAM as it began to.")
    return data.decode()


def _make_binding(certificate: bytes) -> tuple[str, bytes] | None:
    """Make the channel binding to the server's certificate (RFC 5929, 4); None if its signature has no hash."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        hashed = read.signature_hash_algorithm
    except (ValueError, UnsupportedAlgorithm):
        return None
    if hashed is None:
        return None
    return "tls-server-end-point", read.fingerprint(hashes.SHA256() if isinstance(hashed, _WEAK_HASHES) else hashed)


def _md5(data: str | bytes) -> str:
    return hashlib.md5(data.encode() if isinstance(data, str) else data, usedforsecurity=False).hexdigest()
