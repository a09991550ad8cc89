"""Parses the hostile head of a program's request, or refuses it. Pure.

A request has up to three names of its destination: that of the connection, the target, and the Host header. If they
disagree, it is refused: the name chooses the credential, which must go to no other destination.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from gloveport.egress.http.heads import HOP_BY_HOP, Headers, RequestHead, hyphenate, join_values, options_of
from gloveport.errors import Denied
from gloveport.model.egress import Scheme
from gloveport.policy.hosts.authorities import DEFAULT_PORTS, canonical_host, find_loopback

_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#]+)(?::(?P<port>[0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_DROPPED = HOP_BY_HOP | {b"expect", b"http2-settings"}
_OVERRIDES = frozenset(
    {b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-original-method"}
    | {b"x-original-url", b"x-rewrite-url", b"x-original-uri"}
)
_SECOND_PATH = re.compile(rb"x-[a-z0-9]{1,16}-(?:copy|rename)-source|destination")
"""Headers that name another object, which is copied from there, or to there: those of S3, Azure and others, and of
WebDAV."""

# Rack takes every multipart body for a form, and a POST without a type.
_FORM = re.compile(rb"application/x-www-form-urlencoded|multipart/", re.IGNORECASE)
_CHARSET = re.compile(rb";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
_LIKE_ASCII = re.compile(rb"(?:utf-?8|(?:us-)?ascii|iso-?8859-\d{1,2}|latin-?1|windows-125\d)?", re.IGNORECASE)
"""Charsets in which a name of ASCII letters has the same bytes as in ASCII: servers decode a text as it is declared."""

_JSON = re.compile(rb"[/+]json", re.IGNORECASE)
_IN_JSON = re.compile(b'"%b"' % b"".join(rb"(?:%c|\\u%04x)" % (letter, letter) for letter in b"_method"), re.IGNORECASE)
LONGEST_IN_JSON = len(rb'"\u005f"') + len("method") * len(rb"\u006d")
"""Most bytes of a member's name that overrides the method, as Laravel and Phoenix let it."""

# Possessive quantifiers, without backtracking: a form may be a megabyte of blanks after one "name=".
_PARTS = (
    (b"name", re.compile(rb"name\s*+=(?:\s*+[\"'])?+[^a-z\"';]++method\b")),
    (b"content-id", re.compile(rb"content-id:\s*+[^a-z\s\"';]++method\b")),  # to Rack, the name of a part without one
)
_SLICE_BYTES = 1 << 16
_NO_LETTERS = bytes(code for code in range(256) if not bytes((code,)).isalpha())
_OVERRIDING_PARAMETERS = frozenset(name.replace(b"-", b"") for name in _OVERRIDES)
_PERHAPS = frozenset({b"method", b"httpmethod"})  # overrides only if the value is a method
_METHODS = frozenset({b"get", b"head", b"post", b"put", b"patch", b"delete", b"options"})
_PARAMETERS = re.compile(rb"[&;]")
_SHORTEST = len("method")
_MOST_PARAMETERS = 1 << 16
_MOST_ESCAPES = 4096
"""Most escapes in one name."""
_LONGEST_METHOD = 64
"""Most bytes of a value that may be an escaped method."""
_MOST_PORT = 65_535
_SHOWN_CHARS = 300
_LOCALHOST_HINT = (
    "This port of localhost leads out of the sandbox: name the granted host. A server of your own needs another port."
)
_LONGEST_PATH = 4096  # the path is logged, and no server accepts much more


class Site(NamedTuple):
    """The destination of a connection or request, with a canonical host."""

    scheme: Scheme
    host: str
    port: int


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """A parsed request.

    Attributes:
        path: The path as it was sent, without the query.
        query: The text after the question mark; None without one.
        headers: The headers without the hop-by-hop ones.
        length: Bytes of the body, as declared; None for a chunked body.
        websocket: Whether it requests an upgrade to WebSocket.
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
        """Whether the request has a body."""
        return self.length != 0

    @property
    def has_form(self) -> bool:
        """Whether the body is a form, in which frameworks look for a method override."""
        if not self.has_body:
            return False
        is_typed = any(name == b"content-type" and value for name, value in self.headers)
        return (self.method == "POST" and not is_typed) or any(map(_FORM.match, self._types))

    @property
    def has_json(self) -> bool:
        """Whether the body is JSON, in which frameworks look for it, too."""
        return self.has_body and any(map(_JSON.search, self._types))

    @property
    def is_like_ascii(self) -> bool:
        """Whether ASCII letters of the body are ASCII to the server too, as far as the declared charsets tell."""
        return all(_LIKE_ASCII.fullmatch(charset) for each in self._types for charset in _CHARSET.findall(each))

    @property
    def _types(self) -> list[bytes]:
        return [value for name, value in self.headers if hyphenate(name) == b"content-type"]

    def override(self) -> str | None:
        """Find where the head asks the server to treat the request as another method or path; None if nowhere."""
        for header, _ in self.headers:
            if hyphenate(header) in _OVERRIDES:
                return header.decode()
        return "the query" if _overrides((self.query or "").encode()) else None

    def second_path(self) -> str | None:
        """Find the header that names a second path, which no rule has been asked about; None if there is none."""
        names = (header for header, _ in self.headers if _SECOND_PATH.fullmatch(hyphenate(header)))
        return next((header.decode() for header in names), None)

    def overrides_in(self, form: bytes) -> bool:
        """Whether a form asks for another method. For a large form, call it in a thread."""
        if any(hyphenate(name) == b"content-encoding" for name, _ in self.headers):
            return True  # an encoded form can't be inspected here
        return not self.is_like_ascii or _overrides_in_parts(form.lower()) or _overrides(form)


def overrides_in_json(text: bytes) -> bool:
    """Whether a part of a JSON text has a member that overrides the method, or may have it in UTF-16 or UTF-32."""
    return b"\0" in text or _IN_JSON.search(text) is not None


def _overrides_in_parts(form: bytes) -> bool:
    """Whether a part of a multipart form overrides the method. It searches slices: ``re`` blocks all threads."""
    form = form.replace(b"\\", b"")  # some frameworks drop those in a name
    for word, pattern in _PARTS:
        at = 0
        while at < len(form):
            following = form.find(word, at + _SLICE_BYTES)  # no match holds the word twice, so slices may end there
            end = len(form) if following < 0 else following
            if pattern.search(form, at, end):
                return True
            at = end
    return False


def _overrides(parameters: bytes) -> bool:
    """Whether a parameter is ``_method``, or a spelling that some framework accepts: ``.method``, ``[_method]``.

    Also True if it can't be determined: there are too many parameters, or a name has too many escapes.
    """
    if parameters.count(b"&") + parameters.count(b";") >= _MOST_PARAMETERS:
        return True
    return any(_is_override(one) for one in _PARAMETERS.split(parameters) if len(one) >= _SHORTEST)


def _is_override(parameter: bytes) -> bool:
    written, _, value = parameter.partition(b"=")
    if written.count(b"%") > _MOST_ESCAPES:
        return True
    name, mark, rest = unquote_to_bytes(written).partition(b"=")  # some frameworks split at an escaped "=" too
    letters = name.lower().translate(None, _NO_LETTERS)
    if letters == b"method" and not name[:1].isalpha():
        return True
    if letters not in _PERHAPS:
        return letters in _OVERRIDING_PARAMETERS
    value = rest if mark else value
    return len(value) <= _LONGEST_METHOD and unquote_to_bytes(value).lower() in _METHODS


def parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    """Parse ``host``, ``host:port`` or ``[v6]:port``; return the canonical host and the port.

    Raises:
        Denied: The text is none of these.
    """
    matched = _AUTHORITY.fullmatch(text)
    port = int(matched["port"]) if matched and matched["port"] else default_port
    if matched is None or port is None or not 0 < port <= _MOST_PORT:
        raise refuse_malformed("it names no host with a port")  # unquoted: the text may hold a password
    try:
        return canonical_host(matched["host"]), port
    except ValueError as error:
        raise refuse_malformed(str(error)) from error


def parse_request(request: RequestHead, site: Site | None) -> ParsedRequest:
    """Parse the head of a request other than CONNECT. ``site`` is the destination of the connection; None at the proxy
    door, where each target has its own.

    Raises:
        Denied: The request makes no sense, or its names disagree.
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
            hint=_LOCALHOST_HINT if find_loopback(where.host) else "Leave the Host header to your HTTP client.",
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
    """Make the refusal of a malformed request."""
    problem = problem[:_SHOWN_CHARS]  # it may quote a long request
    return Denied("bad_request", f"This is no request that can be sent: {problem}.", hint="Use an HTTP client.")


def _find_site(target: str, site: Site | None) -> tuple[Site, str]:
    """Find the destination of a request; return it, and the target's path and query."""
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
    named = Site(scheme, *parse_authority(matched["authority"], DEFAULT_PORTS[scheme]))
    if site is not None and named != site:
        raise Denied(
            "names_disagree",
            f"The connection leads to {site.host}:{site.port}, and the request names another place.",
            hint="Open a connection to the place that you mean.",
        )
    rest = matched["rest"]
    return named, rest if rest.startswith("/") else f"/{rest}"
