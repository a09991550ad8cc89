"""Computes the forms in which a secret may be echoed: escaped, encoded, in another case, reversed. Pure.

A form is the part that stays the same wherever the value stands: of base64, the characters without bits of neighbours.
"""

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Self
from urllib.parse import quote_from_bytes

from gloveport.late_pattern import late_pattern
from gloveport.secrets.strength import LEAST_BITS, guess_bits, is_guessable

MIN_FORM_BYTES = 8
_BOUNDARY = "-----"  # RFC 7468

PLAIN_IN_JSON = late_pattern(r"[A-Za-z0-9 _.:;,*!?#%()@$^~|{}\[\]-]*")
PLAIN_IN_URLS = late_pattern(rb"[A-Za-z0-9_.-]*")
BEYOND_ASCII = late_pattern(r"[^\x00-~]")
NOT_PRINTABLE = late_pattern(r"[^ -~]")

JSON_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Characters that are needlessly written as \\uXXXX: none; by Go, Flask, Gson, .NET.
JSON_EXTRAS = ("", "<>&", "<>&'", "<>&'=", "<>&'+`\"")
JSON = tuple(
    (
        {code: f"\\u{code:{digits}}" for code in range(32)}
        | str.maketrans(JSON_SHORT)
        | {ord(extra): f"\\u{ord(extra):{digits}}" for extra in extras},
        digits,
    )
    for extras, digits in product(JSON_EXTRAS, ("04x", "04X"))
)
# Characters that remain unescaped: none; in paths, forms, script components, segments, whole URLs.
PERCENT_SAFE = ("", "/", "*", "!'()*", "!$&'()*+,;=:@", "!$&'()*+,;=:@/?#")
MARKUP = tuple(
    str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | quotes)
    for quotes in (
        dict[str, str](),
        {'"': "&quot;", "'": "&#x27;"},
        {'"': "&quot;", "'": "&#39;"},
        {'"': "&quot;", "'": "&apos;"},
        {'"': "&quot;", "'": "&#039;"},  # PHP
        {'"': "&quot;", "'": "&#x27;", "+": "&#x2B;"},  # ASP.NET
        {'"': "&quot;", "'": "&#x27;", "`": "&#x60;", "=": "&#x3D;"},  # Handlebars
        {'"': "&#34;", "'": "&#39;"},
        {'"': "&#34;", "'": "&#39;", "+": "&#43;"},
        {'"': "&quot;", "'": "&#x27;", "/": "&#x2F;"},
        {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
    )
)
# In strings of scripts: by Django, Twig, Laminas. In attributes of markup: by the latter two.
_ESCAPED = [code for code in range(128) if not chr(code).isalnum() and chr(code) not in ",._"]
SCRIPT = (
    {ord(character): f"\\u{ord(character):04X}" for character in (*map(chr, range(32)), *"\\'\"><&=-;`")},
    {code: f"\\u{code:04X}" for code in _ESCAPED} | str.maketrans({**JSON_SHORT, "/": "\\/", '"': "\\u0022"}),
    {code: f"\\x{code:02X}" for code in _ESCAPED},
)
ATTRIBUTE = {code: f"&#x{code:02X};" for code in _ESCAPED} | str.maketrans(
    {"-": "-", "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
)
BYTES_WRITTEN = ("{}", "{}:", "{} ", "{}-", "\\x{}", "%{}", "%25{}", "0x{}, ", "0x{},")
DECIMAL_JOINTS = (",", ", ", " ")
# Characters with a meaning in Markdown: those in the middle of words, most, all.
MARKDOWN = tuple(map(re.compile, (r"[_*]", r"[\\`*_{}\[\]<>~|]", r"[!-/:-@\[-`{-~]")))
QUOTED_PRINTABLE = late_pattern(rb"[^\t\x20-<>-~]")
UNITS_WRITTEN = ("\\u{:04x}", "\\u{:04X}", "&#{};", "&#x{:x};", "&#x{:X};")


@dataclass(frozen=True, slots=True, repr=False)
class Forms:
    """The forms of one value.

    Attributes:
        plain: Forms that are the same wherever they stand.
        base64: Its base64 in the standard alphabet, which may be folded.
        cut: Forms whose beginning or end may come alone, and how many bytes of that count as the whole.
    """

    plain: tuple[bytes, ...]
    base64: tuple[bytes, ...]
    cut: tuple[tuple[bytes, int], ...] = ()

    @classmethod
    def of(cls, value: str) -> Self:
        """The forms of a value that are too long to be found by chance. White space around the value is ignored."""
        value = value.strip()
        lines = [form for line in _lines(value) for form in _frequent(line)]
        return cls(_long([*echoes(value), *lines]), _long(base64_cores(value)), _cut_forms(value))


def _lines(value: str) -> list[str]:
    """Lines that are secrets by themselves: logs, lists and other line endings split a value into its lines.

    In a PEM key, those are all lines but the boundaries, which are public, and perhaps the last one. Half of a setting
    may be known: its name. So it needs twice as many bits that can't be guessed.
    """
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) == 1:
        return []
    return [line for line in lines if not line.startswith(_BOUNDARY) and guess_bits(line) >= 2 * LEAST_BITS]


def _cut_forms(value: str) -> tuple[tuple[bytes, int], ...]:
    """The forms in which servers and tools echo a value that they cut: in a URL, a line of a log, a header.

    Half of a random value does not occur by chance; half of one that a person made up may be a word, so more of it must
    be present. A replacement confirms a guess of that part, and so reveals the rest: it must be too long to guess.
    """
    share, least = (0.75, 12) if is_guessable(value) else (0.5, 10)
    chars = max(least, math.ceil(share * len(value)))
    if chars >= len(value):
        return ()
    return tuple(
        (form, max(MIN_FORM_BYTES, math.ceil(len(form) * chars / len(value))))
        for form in dict.fromkeys(_frequent(value))
        if len(form) > MIN_FORM_BYTES
    )


def _frequent(value: str) -> Iterator[bytes]:
    """The most frequent forms: all forms of each line of a long value would be hundreds of thousands."""
    raw = _raw(value)
    yield raw
    yield from map(_raw, _in_json(value))
    yield from map(_raw, _in_markup(value))
    yield from _in_urls(raw)
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for core in base64_cores(value):
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def spellings(text: str) -> Iterator[bytes]:
    """The text in its own and in other cases, plain and escaped as in JSON, URLs and markup. Some come twice."""
    for cased in dict.fromkeys((text, text.upper(), text.lower(), text.swapcase(), text.title())):
        yield _raw(cased)
        yield from map(_raw, _in_json(cased))
        yield from map(_raw, _in_markup(cased))
        yield from _in_urls(_raw(cased))


def echoes(value: str) -> Iterator[bytes]:
    """List every form of a value except its standard base64, which may be folded. Some come twice."""
    raw = _raw(value)
    yield from spellings(value)
    yield from spellings(value[::-1])
    yield raw[::-1]
    yield _raw(ascii(value)[1:-1])
    yield from (_raw(outer) for inner in set(_in_json(value)) for outer in _in_json(inner))
    if max(value) <= "\xff":
        yield value.encode("latin-1")
    yield value.encode("utf-16-le", "surrogatepass")
    yield value.encode("utf-16-be", "surrogatepass")
    for written, digits in product(BYTES_WRITTEN, ("02x", "02X")):
        yield _raw("".join(written.format(format(byte, digits)) for byte in raw).rstrip(" ,:-"))
    for written in UNITS_WRITTEN:
        yield _raw("".join(written.format(unit) for unit in _units(value)))
    for joint in DECIMAL_JOINTS:
        yield _raw(joint.join(map(str, raw)))
    for table in SCRIPT:
        yield _raw(value.translate(table))
        yield _raw(_in_ascii(value.translate(table), "04X"))
    yield _raw(NOT_PRINTABLE.sub(_refer_to, value.translate(ATTRIBUTE)))
    for special in MARKDOWN:
        yield _raw(special.sub(r"\\\g<0>", value))
    yield QUOTED_PRINTABLE.sub(lambda byte: b"=%02X" % byte[0][0], raw)
    for core in base64_cores(value):
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
        yield core.replace(b"/", b"\\/")
        yield from _in_urls(core)
        yield core.hex().encode()
        yield core.hex().upper().encode()
        yield from _cores(core, 3, base64.b64encode)
    for codec in ("utf-16-le", "utf-16-be"):
        yield from _cores(value.encode(codec, "surrogatepass"), 3, base64.b64encode)
    for core in _cores(raw, 5, base64.b32encode):
        yield core
        yield core.lower()


def base64_cores(value: str) -> Iterator[bytes]:
    """Give the value's base64 among other bytes, as after ``user:``, without the characters that hold bits of those."""
    return _cores(_raw(value), 3, base64.b64encode)


def _cores(raw: bytes, alignments: int, encode: Callable[[bytes], bytes]) -> Iterator[bytes]:
    bits = {3: 6, 5: 5}[alignments]
    for before in range(alignments):
        first, last = -(-8 * before // bits), 8 * (before + len(raw)) // bits
        yield encode(bytes(before) + raw)[first:last]


def _long(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(form for form in dict.fromkeys(forms) if len(form) >= MIN_FORM_BYTES)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _units(text: str) -> tuple[int, ...]:
    wide = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(wide[at : at + 2]) for at in range(0, len(wide), 2))


def _in_json(text: str) -> Iterator[str]:
    if PLAIN_IN_JSON.fullmatch(text):
        yield text
        return
    for table, digits in JSON:
        escaped = text.translate(table)
        for written in (escaped, _in_ascii(escaped, digits)):
            yield written
            yield written.replace("/", "\\/")


def _in_ascii(text: str, digits: str) -> str:
    return BEYOND_ASCII.sub(lambda found: "".join(f"\\u{unit:{digits}}" for unit in _units(found[0])), text)


def _in_markup(text: str) -> Iterator[str]:
    for table in MARKUP:
        written = text.translate(table)
        yield written
        yield written.encode("ascii", "xmlcharrefreplace").decode()
        yield NOT_PRINTABLE.sub(_refer_to, written)


def _refer_to(found: re.Match[str]) -> str:
    return f"&#x{ord(found[0]):X};"


def _in_urls(raw: bytes) -> Iterator[bytes]:
    if PLAIN_IN_URLS.fullmatch(raw):
        yield raw
        return
    for quoted in {quote_from_bytes(raw, safe).encode() for safe in PERCENT_SAFE}:
        for cased in (quoted, re.sub(rb"%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)):
            for written in (cased, cased.replace(b"~", b"%7E"), cased.replace(b"%20", b"+")):
                yield written
                yield written.replace(b"%", b"%25")
                yield written.replace(b"%", b"%2525")
