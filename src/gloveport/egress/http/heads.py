"""Parses and writes heads of HTTP/1.1 messages, strictly (RFC 9112). Pure.

Heads that two parsers could read differently are refused: folded lines, line ends other than CR LF, control characters,
spaces around a name, two lengths. h11 reads every accepted head in the same way, which a test checks.
"""

import re
from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Headers with names in lower case, in the received order, repeated ones repeatedly."""

HEAD_BYTES = 1 << 16
"""Most bytes of a head."""

WITHOUT_BODY = frozenset({204, 304})
"""Statuses of answers without a body, whatever their headers declare."""

HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"}
    | {b"te", b"upgrade", b"content-length", b"transfer-encoding", b"trailer", b"host"}
)
"""Headers for a single connection (RFC 9110, 7.6.1), including those of framing."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TEXT = rb"[\t\x20-\x7e\x80-\xff]*"
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb":" + _TEXT + rb"\r\n)*")
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/(?P<version>1\.[01])\r\n")
_STATUS_LINE = re.compile(rb"HTTP/(?P<version>1\.[01]) ([1-9][0-9]{2})(?: (" + _TEXT + rb"))?\r\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_UNREADABLE = re.compile(rb"\n(?<!\r\n)|\r(?=[^\n])|\x00")
"""Each alternative begins with a character, so ``re`` skips to these: else 60 heads of 64 KiB would take 0.1 s."""

_UNREADABLE_START = re.compile(rb"[^!-~]")
_END = b"\r\n\r\n"


class Malformed(Exception):  # noqa: N818 - the far end's fault, which is told to it
    """Received data is no HTTP/1.1, or too large.

    Attributes:
        status: The status that a server answers with.
    """

    def __init__(self, problem: str, *, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


class Framing(NamedTuple):
    """Where a body ends: after ``length`` bytes, after the last chunk, or, with neither, undeclared."""

    length: int | None
    chunked: bool


class Outbound(NamedTuple):
    """The head of a request to be sent.

    Attributes:
        target: Path and query, in ASCII, as they are sent.
        headers: The headers without ``host``, which the route has, and framing, which the connection makes.
    """

    method: str
    target: str
    headers: Headers


class RequestHead(NamedTuple):
    """The head of a request: all headers, with names in lower case, and the framing that they declare."""

    method: str
    target: str
    version: bytes
    headers: Headers
    framing: Framing


class ResponseHead(NamedTuple):
    """The head of a response, as above."""

    version: bytes
    status: int
    reason: bytes
    headers: Headers
    framing: Framing


def find_end(data: bytearray, most_lines: int, searched_bytes: int = 0) -> int:
    """Find the end of the head that ``data`` begins with; 0 if it is incomplete. ``searched_bytes`` were searched
    before: a peer that sends single bytes must not cause quadratic work.

    Raises:
        Malformed: The head is too large, or the data can't be the beginning of a head.
    """
    end = data.find(_END, max(0, searched_bytes - len(_END)), HEAD_BYTES)
    head = data if end < 0 else data[: end + len(_END)]
    if end < 0 and len(data) >= HEAD_BYTES:
        raise Malformed(f"its head is larger than {HEAD_BYTES} bytes", status=431)
    if head.count(b"\n") > most_lines:
        raise Malformed(f"its head has more than {most_lines} lines", status=431)
    if _UNREADABLE_START.match(head) or _UNREADABLE.search(head, max(0, searched_bytes - 1)):
        raise Malformed("its head has a NUL, or a line that does not end in CR LF")
    return 0 if end < 0 else end + len(_END)


def may_be_request(data: bytearray) -> bool:
    """Whether an incomplete head can still become that of a request."""
    return b"\r\n" not in data or _REQUEST_LINE.match(data) is not None


def read_request(head: bytes) -> RequestHead:
    """Parse a complete head.

    Raises:
        Malformed: It is no head of HTTP/1.1 or HTTP/1.0, or declares the end of its body twice or in an unknown way.
    """
    (method, target, version), headers, framing = _read(head, _REQUEST_LINE, "request")
    return RequestHead(method.decode("ascii"), target.decode("ascii"), version, headers, framing)


def read_response(head: bytes) -> ResponseHead:
    """Parse a complete head. Raises as above."""
    (version, status, reason), headers, framing = _read(head, _STATUS_LINE, "status")
    return ResponseHead(version, int(status), reason or b"", headers, framing)


def read_trailers(lines: bytes) -> Headers:
    """Parse the trailer fields after a body, with the empty line at their end. Raises as above."""
    return _fields(lines, 0)


def hyphenate(name: bytes) -> bytes:
    """Replace ``_`` by ``-`` in a header's name: servers that turn names into variables take the two for one."""
    return name.replace(b"_", b"-")


def join_values(headers: Headers, name: bytes) -> bytes:
    """Join all values of a header by commas."""
    return b",".join([value for key, value in headers if key == name])


def options_of(headers: Headers) -> frozenset[bytes]:
    """List the options of ``connection``, in lower case."""
    return frozenset(map(bytes.strip, join_values(headers, b"connection").lower().split(b",")))


def write_request(method: str, target: str, headers: Headers) -> bytes:
    """Write the head of a request. Raises as below."""
    try:
        line = f"{method} {target} HTTP/1.1".encode("ascii")
    except UnicodeEncodeError:
        line = b""
    if _REQUEST_LINE.fullmatch(line + b"\r\n") is None:
        raise ValueError("a request has characters that HTTP does not allow")
    return write_head(line, headers)


def write_head(line: bytes, headers: Headers) -> bytes:
    """Write a head: the bytes of its first line, and its headers.

    Raises:
        ValueError: It would not be parsed as it is meant. The message quotes nothing of the head.
    """
    fields = b"".join([b"%b: %b\r\n" % header for header in headers])
    if b"\r" in line or b"\n" in line or _FIELDS.fullmatch(fields) is None or fields.count(b"\n") != len(headers):
        raise ValueError("a head has characters that HTTP does not allow")
    return b"%b\r\n%b\r\n" % (line, fields)


def _read(head: bytes, first_line: re.Pattern[bytes], what: str) -> tuple[tuple[bytes, ...], Headers, Framing]:
    line = first_line.match(head)
    if line is None:
        raise Malformed(f"it does not begin with a {what} of HTTP/1.1")
    headers = _fields(head, line.end())
    return line.groups(), headers, _framing(headers, line["version"])


def _fields(head: bytes, start: int) -> Headers:
    end = len(head) - 2
    if _FIELDS.fullmatch(head, start, end) is None or head[end:] != b"\r\n":
        raise Malformed("one of its headers is none")
    fields = (line.partition(b":") for line in head[start:end].split(b"\r\n")[:-1])
    return tuple([(name.lower(), value.strip(b" \t")) for name, _, value in fields])


def _framing(headers: Headers, version: bytes) -> Framing:
    declared = [header for header in headers if header[0] in {b"content-length", b"transfer-encoding"}]
    if not declared:
        return Framing(None, chunked=False)
    if len(declared) > 1:
        raise Malformed("it says more than once where its body ends")
    ((name, value),) = declared
    if name == b"content-length":
        if _LENGTH.fullmatch(value) is None:
            raise Malformed("its content-length is no number")
        return Framing(int(value), chunked=False)
    if version != b"1.1":
        raise Malformed("HTTP/1.0 has no transfer coding")
    if value.lower() != b"chunked":
        raise Malformed("its transfer coding is unknown", status=501)
    return Framing(None, chunked=True)
