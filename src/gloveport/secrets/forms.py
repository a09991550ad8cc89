"""The forms in which a value may be echoed: escaped, encoded, in another case, reversed. Pure: a value in, bytes out.

A form is what stays the same wherever the value stands: of base64 the characters that no neighbour has a part in.
"""

import base64
import re
from collections.abc import Callable, Iterator
from itertools import product
from urllib.parse import quote_from_bytes

JSON_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
JSON_EXTRAS = ("", "<>&", "<>&'", "<>&'=", "<>&'+`\"")  # as \uXXXX too: nothing, Go, Flask, Gson, .NET
PERCENT_SAFE = (
    "",
    "/",
    "*",
    "!'()*",
    "!$&'()*+,;=:@",
    "!$&'()*+,;=:@/?#",
)  # none, paths, forms, scripts, segments, URLs
BASIC_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MARKUP: tuple[dict[str, str], ...] = (
    {},
    {'"': "&quot;", "'": "&#x27;"},
    {'"': "&quot;", "'": "&#39;"},
    {'"': "&quot;", "'": "&apos;"},
    {'"': "&#34;", "'": "&#39;"},
    {'"': "&#34;", "'": "&#39;", "+": "&#43;"},
    {'"': "&quot;", "'": "&#x27;", "/": "&#x2F;"},
    {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
)
BYTES_WRITTEN = ("{}", "{}:", "{} ", "{}-", "\\x{}", "%{}", "%25{}", "0x{}, ", "0x{},")
UNITS_WRITTEN = ("\\u{:04x}", "\\u{:04X}", "&#{};", "&#x{:x};", "&#x{:X};")


def spellings(text: str) -> Iterator[bytes]:
    """The text, in its own and in other cases, as it is and as JSON, URLs and markup write it. Some come twice."""
    for cased in dict.fromkeys((text, text.upper(), text.lower(), text.swapcase(), text.title())):
        yield _raw(cased)
        yield from map(_raw, _in_json(cased))
        yield from map(_raw, _in_markup(cased))
        yield from _in_urls(_raw(cased))


def echoes(value: str) -> Iterator[bytes]:
    """Every form of a value, but its base64 in the standard alphabet, which may be folded. Some come twice."""
    raw = _raw(value)
    yield from spellings(value)
    yield from spellings(value[::-1])
    yield raw[::-1]
    yield _raw(ascii(value)[1:-1])
    yield from (_raw(outer) for inner in _in_json(value) for outer in _in_json(inner))
    if max(value) <= "\xff":
        yield value.encode("latin-1")
    yield value.encode("utf-16-le", "surrogatepass")
    yield value.encode("utf-16-be", "surrogatepass")
    for written, digits in product(BYTES_WRITTEN, ("02x", "02X")):
        yield _raw("".join(written.format(format(byte, digits)) for byte in raw).rstrip(" ,:-"))
    for written in UNITS_WRITTEN:
        yield _raw("".join(written.format(unit) for unit in _units(value)))
    for joint in (",", ", "):
        yield _raw(joint.join(map(str, raw)))
    for core in base64_cores(value):
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
        yield core.replace(b"/", b"\\/")
        yield from _in_urls(core)
    for core in _cores(raw, 5, base64.b32encode):
        yield core
        yield core.lower()


def base64_cores(value: str) -> Iterator[bytes]:
    """The value's base64 among other bytes, as after ``user:``, without the characters that also hold those."""
    return _cores(_raw(value), 3, base64.b64encode)


def _cores(raw: bytes, alignments: int, encode: Callable[[bytes], bytes]) -> Iterator[bytes]:
    bits = {3: 6, 5: 5}[alignments]
    for before in range(alignments):
        first, last = -(-8 * before // bits), 8 * (before + len(raw)) // bits
        yield encode(bytes(before) + raw)[first:last]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _units(text: str) -> tuple[int, ...]:
    wide = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(wide[at : at + 2]) for at in range(0, len(wide), 2))


def _in_json(text: str) -> Iterator[str]:
    for extras, last_plain, digits in product(JSON_EXTRAS, ("~", "\U0010ffff"), ("04x", "04X")):
        written = ""
        for character in text:
            if character in extras or character > last_plain:
                written += "".join(f"\\u{unit:{digits}}" for unit in _units(character))
            else:
                written += JSON_ESCAPES.get(character) or (
                    character if character >= " " else f"\\u{ord(character):{digits}}"
                )
        yield written
        yield written.replace("/", "\\/")


def _in_markup(text: str) -> Iterator[str]:
    for table in MARKUP:
        written = text.translate({ord(character): entity for character, entity in (BASIC_MARKUP | table).items()})
        yield written
        yield written.encode("ascii", "xmlcharrefreplace").decode()


def _in_urls(raw: bytes) -> Iterator[bytes]:
    for safe in PERCENT_SAFE:
        quoted = quote_from_bytes(raw, safe).encode()
        for cased in (quoted, re.sub(rb"%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)):
            for written in (cased, cased.replace(b"~", b"%7E"), cased.replace(b"%20", b"+")):
                yield written
                yield written.replace(b"%", b"%25")
