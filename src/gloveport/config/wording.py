"""Keys, values and types in words: the same for the reference and for every fault.

Text that comes from a file is never shown raw: it could move the cursor, forge a line or fill a screen.
"""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ByteSize

from gloveport.config.schema import KeyPath
from gloveport.model import Value

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Kind(Value):
    """What a key takes: ``expected`` completes "expected ...", ``hint`` says how to write it."""

    expected: str
    hint: str


def printable(text: str, *, limit: int = 4096) -> str:
    """Escape what does not print (controls, bidirectional overrides) as TOML does; cut what exceeds ``limit``."""
    shown = "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if c < "\U00010000" else f"\\U{ord(c):08x}" for c in text
    )
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def argument(path: Path) -> str:
    """Write a path for a command that a person may paste: a directory's name is whatever its author chose."""
    return shlex.quote(printable(str(path)))


def dotted(key: KeyPath) -> str:
    """Spell a key path: ``policy.mounts[0].target``."""
    spelt = ""
    for part in key:
        if isinstance(part, int):
            spelt += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            spelt += f"{'.' if spelt else ''}{printable(name, limit=80)}"
    return spelt


def shown(value: object) -> str:
    """Write a value as TOML has it, shortened; tables and arrays only by kind and length."""
    match value:
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


def toml(value: object) -> str:
    """Write a value of the configuration as TOML has it, whole."""
    match value:
        case str() | Path():
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
        case Value():
            text = "{ " + ", ".join(f"{name} = {toml(below)}" for name, below in value) + " }"
        case _:
            text = str(value)
    return text


def size(count: int) -> str:
    """Write a number of bytes in the largest unit that leaves no fraction: ``"512MiB"``, or ``1000``."""
    return next(
        (f'"{count // unit}{name}"' for name, unit in _UNITS if count >= unit and count % unit == 0), str(count)
    )


def kind_of(annotation: Any, metadata: Sequence[object] = ()) -> Kind:  # noqa: ANN401 - a type form
    """Say what a field of this type takes."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(arguments[0], (*annotation.__metadata__, *metadata))
    if origin in {Union, UnionType}:  # only ever with None, which a file can't say
        return kind_of(next(argument for argument in arguments if argument is not NoneType), metadata)
    if origin is Literal:
        return Kind(expected=_one_of(arguments), hint="write one of these words, in quotes")
    if origin in {tuple, frozenset}:
        return Kind(expected=f"an array, each element {kind_of(arguments[0]).expected}", hint="write it as [a, b]")
    return _plain_kind(annotation, _bounds(metadata))


def _plain_kind(annotation: Any, bounds: str) -> Kind:  # noqa: ANN401 - a type form
    if issubclass(annotation, Value):
        keys = ", ".join(annotation.model_fields)
        return Kind(expected="a table", hint=f"its keys are: {keys}")
    if annotation is bool:
        return Kind(expected="true or false", hint="write it without quotes")
    if annotation is ByteSize:
        hint = 'a plain number is bytes; units are KiB, MiB, GiB (1024) and KB, MB, GB (1000), in quotes: "64MiB"'
        return Kind(expected=f"a size{bounds}", hint=hint)
    if annotation is int:
        return Kind(expected=f"a whole number{bounds}", hint="write it without quotes, unit or decimal point")
    if annotation is float:
        return Kind(expected=f"a number{bounds}", hint="write it without quotes or unit")
    hint = 'write the whole path from "/" on, without ".", ".." or a slash too many; "~" and variables are not expanded'
    return Kind(expected="an absolute path", hint=hint)


def _one_of(words: Sequence[str]) -> str:
    return "one of " + ", ".join(f'"{word}"' for word in words)


def _bounds(metadata: Sequence[object]) -> str:
    bounds = ""
    for item in metadata:
        match item:
            case Gt():
                bounds += f", above {item.gt}"
            case Ge():
                bounds += f", at least {item.ge}"
            case Lt():
                bounds += f", below {item.lt}"
            case Le():
                bounds += f", at most {item.le}"
            case _:  # not a bound
                pass
    return bounds
