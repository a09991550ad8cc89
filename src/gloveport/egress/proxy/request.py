"""Parses the head of a program's request as an enemy's: what it asks for, or why it can't be meant.

Pure. A request has up to three names for where it goes: the place the connection was opened to, the target, and the
Host header. They agree, or it is refused: a credential is chosen by the name, and must go where the name leads.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from gloveport.egress.http.heads import HOP_BY_HOP, Headers, RequestHead, hyphenate, join_values, options_of
from gloveport.errors import Denied
from gloveport.model.egress import Scheme
from gloveport.policy.hosts.authorities import DEFAULT_PORTS, canonical_host

_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#]+)(?::(?P<port>[0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_DROPPED = HOP_BY_HOP | {b"expect", b"http2-settings"}
_OVERRIDES = frozenset(
    {b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-original-method"}
    | {b"x-original-url", b"x-rewrite-url", b"x-original-uri"}
)
_FORM = re.compile(rb"application/x-www-form-urlencoded|multipart/form-data", re.IGNORECASE)
# What has matched is never given back: a form may be a megabyte of blanks behind one "name=".
_PART = re.compile(rb"name\s*+=(?:\s*+[\"'])?+[^a-z\"';]++method\b")
_SLICE_BYTES = 1 << 16
_NO_LETTERS = bytes(code for code in range(256) if not bytes((code,)).isalpha())
_OVERRIDING_PARAMETERS = frozenset(name.replace(b"-", b"") for name in _OVERRIDES)
_PERHAPS = frozenset({b"method", b"httpmethod"})  # of what they say it depends
_METHODS = frozenset({b"get", b"head", b"post", b"put", b"patch", b"delete", b"options"})
_PARAMETERS = re.compile(rb"[&;]")
_SHORTEST = len("method")
_MOST_PARAMETERS = 1 << 16
_MOST_ESCAPES = 4096
"""In one name."""
_LONGEST_METHOD = 64
"""Bytes of a value that may still be a method, however it is escaped."""
_MOST_PORT = 65_535
_SHOWN = 300
_LONGEST_PATH = 4096  # it is written to the log, and no server takes much more


class Site(NamedTuple):
    """What a connection leads to. Canonical."""

    scheme: Scheme
    host: str
    port: int


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """What a request asks for.

    Attributes:
        path: As it was sent, without the query.
        query: What follows the question mark; None without one.
        headers: Without those of the connection alone.
        length: Bytes of the body, as announced; None where it comes in chunks.
        websocket: Whether it asks for the connection to become a WebSocket.
    """

    method: str
    site: Site
    path: str
    query: str | None
    headers: Headers
    length: int | None
    websocket: bool

    @property
    def target(self) -> str:
        """Path and query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def has_body(self) -> bool:
        """Whether a body comes after it."""
        return self.length != 0

    @property
    def has_form(self) -> bool:
        """Whether its body is a form, in which frameworks look for another method."""
        return self.has_body and any(name == b"content-type" and _FORM.match(value) for name, value in self.headers)

    def override(self) -> str | None:
        """Where it asks a server to take another method or path for its own; None where it does not."""
        for header, _ in self.headers:
            if hyphenate(header) in _OVERRIDES:
                return header.decode()
        return "the query" if _overrides((self.query or "").encode()) else None

    def overrides_in(self, form: bytes) -> bool:
        """Whether its body, which is a form, asks for that. Takes time by its size: a large one is for a thread."""
        if any(name == b"content-encoding" for name, _ in self.headers):
            return True  # nobody can tell
        return _overrides_in_parts(form.lower()) or _overrides(form)


def _overrides_in_parts(form: bytes) -> bool:
    """Whether a part has such a name. No other call may have to wait for the whole of a large form to be searched."""
    at = 0
    while at < len(form):
        following = form.find(b"name", at + _SLICE_BYTES)  # in no match is there a second one
        end = len(form) if following < 0 else following
        if _PART.search(form, at, end):
            return True
        at = end
    return False


def _overrides(parameters: bytes) -> bool:
    """Whether one of them is ``_method``, or what some framework takes for it: ``.method``, ``[_method]``.

    So it counts as well where nobody can tell: there are too many, or a name is escaped at length.
    """
    if parameters.count(b"&") + parameters.count(b";") >= _MOST_PARAMETERS:
        return True
    return any(_is_override(one) for one in _PARAMETERS.split(parameters) if len(one) >= _SHORTEST)


def _is_override(parameter: bytes) -> bool:
    written, _, value = parameter.partition(b"=")
    if written.count(b"%") > _MOST_ESCAPES:
        return True
    name, mark, rest = unquote_to_bytes(written).partition(b"=")  # some take an escaped one for the sign as well
    letters = name.lower().translate(None, _NO_LETTERS)
    if letters == b"method" and not name[:1].isalpha():
        return True
    if letters not in _PERHAPS:
        return letters in _OVERRIDING_PARAMETERS
    value = rest if mark else value
    return len(value) <= _LONGEST_METHOD and unquote_to_bytes(value).lower() in _METHODS


def parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    """Canonical host and port of ``host``, ``host:port`` or ``[v6]:port``.

    Raises:
        Denied: It is none of these.
    """
    matched = _AUTHORITY.fullmatch(text)
    port = int(matched["port"]) if matched and matched["port"] else default_port
    if matched is None or port is None or not 0 < port <= _MOST_PORT:
        raise refuse_malformed("it names no host with a port")  # nothing of it: a password may stand there
    try:
        return canonical_host(matched["host"]), port
    except ValueError as error:
        raise refuse_malformed(str(error)) from error


def parse_request(request: RequestHead, site: Site | None) -> ParsedRequest:
    """Read a head.

    Args:
        request: Its method is not CONNECT.
        site: Where its connection leads; None where the program speaks to a proxy, and each target says where it goes.

    Raises:
        Denied: It can't be meant, or its names disagree.
    """
    method = request.method
    if not _TOKEN.fullmatch(method) or method in {"CONNECT", "TRACE"}:
        raise refuse_malformed(f"{method[:40]!r} is no method that can be used here")
    length = None if request.framing.chunked else request.framing.length or 0
    where, rest = _find_site(request.target, site)
    named = [value for name, value in request.headers if name == b"host"]
    if len(named) != 1:
        raise refuse_malformed("it needs one Host header")
    if parse_authority(named[0].decode("ascii", "replace"), DEFAULT_PORTS[where.scheme]) != where[1:]:
        raise Denied(
            "names_disagree",
            f"The request goes to {where.host}:{where.port}, and its Host header names another place.",
            hint="Leave the Host header to your HTTP client.",
        )
    path, mark, query = rest.partition("?")
    if len(path) > _LONGEST_PATH:
        raise refuse_malformed(f"its path has more than {_LONGEST_PATH} characters")
    options = options_of(request.headers)
    upgrade, dropped = join_values(request.headers, b"upgrade").strip().lower(), _DROPPED | options
    return ParsedRequest(
        method=method,
        site=where,
        path=path or "/",
        query=query if mark else None,
        headers=tuple((name, value) for name, value in request.headers if hyphenate(name) not in dropped),
        length=length,
        websocket=upgrade == b"websocket" and b"upgrade" in options and method == "GET" and length == 0,
    )


def refuse_malformed(problem: str) -> Denied:
    """The refusal of what is no request."""
    problem = problem[:_SHOWN]  # it may quote all that came
    return Denied("bad_request", f"This is no request that can be sent: {problem}.", hint="Use an HTTP client.")


def _find_site(target: str, site: Site | None) -> tuple[Site, str]:
    """Where a request goes, and path and query."""
    if target.startswith("/") or (target == "*" and site is not None):
        if site is None:
            raise refuse_malformed("this is a proxy, which needs a whole URL")
        if "#" in target:
            raise refuse_malformed("its target has a fragment")
        return site, target
    matched = _ABSOLUTE.fullmatch(target)
    if matched is None:
        raise refuse_malformed("its target is none")
    scheme: Scheme = "https" if matched["scheme"].lower() == "https" else "http"
    told = Site(scheme, *parse_authority(matched["authority"], DEFAULT_PORTS[scheme]))
    if site is not None and told != site:
        raise Denied(
            "names_disagree",
            f"The connection leads to {site.host}:{site.port}, and the request names another place.",
            hint="Open a connection to the place that you mean.",
        )
    rest = matched["rest"]
    return told, rest if rest.startswith("/") else f"/{rest}"
