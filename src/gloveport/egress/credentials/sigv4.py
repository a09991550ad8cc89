"""Signs a request by AWS Signature Version 4. Pure: the time is an argument.

Checked against the published examples and against signatures of AWS's own client (tests/egress/test_sigv4.py).
"""

import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from msgspec import Struct

from gloveport.egress.http.heads import Headers, Outbound

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"
# These headers must be signed, and all that begin with x-amz-. Others may be changed on the way without harm.
_SIGNED = frozenset({b"host", b"content-type", b"content-md5"})
_SET_HERE = frozenset({b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token"})


class SigningKey(Struct, frozen=True, kw_only=True):
    """An AWS key, and the region and service that it signs for."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    region: str
    service: str


def sign(out: Outbound, host: str, payload_hash: str, key: SigningKey, now: datetime) -> Outbound:
    """Put date, hash of the body, session token and signature into the head of a request.

    Args:
        out: The head. Its own headers of these names are replaced.
        host: The request's ``host`` header.
        payload_hash: SHA-256 of the body in lower-case hex, or a constant that AWS accepts instead.
        key: The signing key.
        now: The time, with a time zone; AWS accepts a difference of some minutes.
    """
    stamped = [
        *((name, value) for name, value in out.headers if name not in _SET_HERE),
        (b"x-amz-content-sha256", payload_hash.encode()),
        (b"x-amz-date", f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}".encode()),
    ]
    if key.session_token is not None:
        stamped.append((b"x-amz-security-token", key.session_token.encode()))
    signed = tuple((name, value) for name, value in stamped if name in _SIGNED or name.startswith(b"x-amz-"))
    value = authorization(out._replace(headers=((b"host", host.encode()), *signed)), payload_hash, key, now)
    return out._replace(headers=(*stamped, (b"authorization", value.encode())))


def authorization(request: Outbound, payload_hash: str, key: SigningKey, now: datetime) -> str:
    """Write the value of ``Authorization`` for a request of which every header is signed, ``host`` among them."""
    stamp = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    scope = f"{stamp[:8]}/{key.region}/{key.service}/aws4_request"
    names, canonical = canonical_request(request, payload_hash, key.service)
    to_sign = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode('latin-1')).hexdigest()}"
    secret = f"AWS4{key.secret_access_key}".encode()
    for part in (stamp[:8], key.region, key.service, "aws4_request", to_sign):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return f"{_ALGORITHM} Credential={key.access_key_id}/{scope}, SignedHeaders={names}, Signature={secret.hex()}"


def canonical_request(request: Outbound, payload_hash: str, service: str) -> tuple[str, str]:
    """Return the names of the signed headers, and the canonical request, with bytes of headers as Latin-1."""
    path, _, query = request.target.partition("?")
    names, headers = _canonical_headers(request.headers)
    lines = (request.method, _canonical_path(path, service), _canonical_query(query), headers, names, payload_hash)
    return names, "\n".join(lines)


def _canonical_path(path: str, service: str) -> str:
    if service.startswith("s3"):  # no normalisation, for a key may hold "//" and ".."; encoded once, not twice
        return "/".join(map(_encode_once, path.split("/"))) or "/"
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments[-1:] = []
        elif segment not in {"", "."}:
            segments.append(segment)
    end = "/" if segments and path.endswith("/") else ""
    return quote(f"/{'/'.join(segments)}{end}", safe=f"/{_UNRESERVED}")


def _canonical_query(query: str) -> str:
    pairs = (parameter.partition("=") for parameter in query.split("&") if parameter)
    encoded_pairs = (
        (_encode_once(name.replace("+", " ")), _encode_once(value.replace("+", " "))) for name, _, value in pairs
    )
    return "&".join("=".join(pair) for pair in sorted(encoded_pairs))


def _encode_once(text: str) -> str:
    """Percent-encode a text canonically, whichever of its characters are encoded already."""
    return quote_from_bytes(unquote_to_bytes(text), safe=_UNRESERVED)


def _canonical_headers(headers: Headers) -> tuple[str, str]:
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.decode("latin-1"), []).append(b" ".join(value.split()).decode("latin-1"))
    names = sorted(values)
    return ";".join(names), "".join(f"{name}:{','.join(values[name])}\n" for name in names)
