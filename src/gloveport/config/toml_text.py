"""Writes keys and values as TOML, safe to show: for faults and for the reference.

Text from a file is never shown unescaped: it could move the cursor, forge a line or fill a screen.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from gloveport import untrusted_text
from gloveport.config.schema import KeyPath
from gloveport.late_pattern import late_pattern
from gloveport.model import Value
from gloveport.model.byte_size import ByteSize

_BARE = late_pattern(r"[A-Za-z0-9_-]+")
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def printable(text: str, *, limit: int = 4096) -> str:
    """Escape invisible characters (``untrusted_text``), in TOML's way; cut text longer than ``limit``."""
    escaped_text = untrusted_text.printable(text)
    return escaped_text if len(escaped_text) <= limit else f"{escaped_text[: limit - 1]}…"


def argument(path: Path) -> str:
    """Quote a path for a command that a person may paste: a directory's name may be hostile."""
    return shlex.quote(printable(str(path)))


def spell_key(key: KeyPath) -> str:
    """Spell a key path: ``policy.mounts[0].target``."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f"{'.' if text else ''}{printable(name, limit=80)}"
    return text


def as_toml(value: object) -> str:
    """Write a value as TOML, shortened; tables and arrays only by kind and length."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return printable(json.dumps(value, ensure_ascii=False), limit=60)
        case dict():
            return "a table"
        case list():
            return f"an array of {len(value)}"
        case _:
            return printable(str(value), limit=60)


def nature(value: object) -> str:
    """Name the type of a value, and nothing of its content: it may be a secret in the wrong place."""
    match value:
        case "":
            return "empty text"
        case str():
            return "text"
        case dict():
            return "a table"
        case list():
            return "an array"
        case _:
            return "neither text, table nor array"


def toml(value: object) -> str:
    """Write a value of the configuration as TOML, whole."""
    match value:
        case str() | Path() | IPv4Address() | IPv6Address() | IPv4Network() | IPv6Network():
            text = printable(json.dumps(str(value), ensure_ascii=False), limit=sys.maxsize)
        case bool():
            text = str(value).lower()
        case ByteSize():
            text = size(value)
        case float():
            text = repr(value).removesuffix(".0")
        case tuple() | frozenset():
            elements = map(toml, value)
            text = f"[{', '.join(sorted(elements) if isinstance(value, frozenset) else elements)}]"
        case list():
            text = f"[{', '.join(map(toml, value))}]"
        case Mapping():
            inner = ", ".join(f"{_name(name)} = {toml(below)}" for name, below in value.items())
            text = f"{{ {inner} }}" if inner else "{}"
        case Value():
            pairs = (f"{name} = {toml(below)}" for name, below in value.items() if below is not None)
            text = f"{{ {', '.join(pairs)} }}"
        case _:
            text = str(value)
    return text


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml(name)


def size(count: int) -> str:
    """Write a number of bytes in the largest unit that leaves no fraction: ``"512MiB"``, or ``1000``."""
    return next(
        (f'"{count // unit}{name}"' for name, unit in _UNITS if count >= unit and count % unit == 0), str(count)
    )
