"""Parses TOML with the line of every key, and merges one file over another.

``tomllib`` gives no line numbers. So a document is cut into its statements (a table header, or a key with its value),
and ``tomllib`` parses each alone: its keys then belong to the statement's first line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from gloveport.config.schema import KeyPath
from gloveport.config.toml_text import printable, spell_key
from gloveport.errors import ConfigError
from gloveport.late_libraries import tomllib
from gloveport.late_pattern import late_pattern

Table: TypeAlias = dict[str, object]

MAX_DEPTH = 32

# Tokens that can contain a newline, or open one that does. A multi-line string may end in up to five quotes, of which
# the last three close it.
_TOKEN = late_pattern(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
_POSITION = late_pattern(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)


class Layer(Struct, frozen=True, kw_only=True):
    """One file: its data, and the line at which each key, table and array element begins.

    A line is None where only the file is known.
    """

    path: Path
    data: Table
    lines: Mapping[KeyPath, int | None]


def read_layer(path: Path, content: bytes) -> Layer:
    """Parse one file.

    Raises:
        ConfigError: It is not UTF-8, not TOML, nested too deep, or has an integer of more than 64 bits.
    """
    text = decode_text(path, content)
    return Layer(path=path, data=parse_toml(path, text), lines=_lines(text))


def rebase_layer(layer: Layer, base: tuple[str, ...]) -> Layer:
    """Move the layer of a file with a single table to ``base``, its place in the configuration."""
    data = layer.data
    for name in reversed(base):
        data = {name: data}
    around: dict[KeyPath, int | None] = {base[:depth]: 1 for depth in range(1, len(base) + 1)}
    return Layer(path=layer.path, data=data, lines=around | {(*base, *key): line for key, line in layer.lines.items()})


def decode_text(path: Path, content: bytes) -> str:
    """Decode a file's content, with TOML's line ends and no byte order mark. Raises ConfigError if it is not UTF-8."""
    try:
        return content.decode().removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{printable(str(path))}:{line}: not UTF-8 (byte 0x{content[error.start]:02x})",
            hint="save the file as UTF-8",
        ) from None


def parse_toml(path: Path, text: str) -> Table:
    """Parse a file's text.

    Raises:
        ConfigError: It is not TOML, nested too deep, or has an integer of more than 64 bits.
    """
    name = printable(str(path))
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deep", hint=f"at most {MAX_DEPTH} levels are read") from None
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        found = _POSITION.fullmatch(str(error))
        place, problem = (f":{found[2]}:{found[3]}", found[1]) if found else ("", str(error))
        hint = "text needs quotes; " if problem.startswith("Invalid value") else ""
        raise ConfigError(
            f"{name}{place}: not TOML: {printable(problem)}", hint=f"{hint}see https://toml.io/en/v1.0.0"
        ) from None
    require_plain(name, data)
    return data


def require_plain(name: str, data: object) -> None:
    """Refuse data that no configuration needs and its readers can't handle.

    Raises:
        ConfigError: It is nested too deep, or has an integer of more than 64 bits.
    """
    for key, value in walk(data):
        if len(key) > MAX_DEPTH:
            raise ConfigError(f"{name}: {spell_key(key)}: nested too deep", hint=f"at most {MAX_DEPTH} levels are read")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ConfigError(f"{name}: {spell_key(key)}: more than 64 bits", hint="an integer has at most 64 bits")


def merge(layers: Sequence[Layer]) -> Table:
    """Lay each file over those before it, key by key. An array replaces the other array as a whole."""
    merged: Table = {}
    for layer in layers:
        merged = merge_table(merged, layer.data)
    return merged


def merge_table(under: Table, over: Table) -> Table:
    """Lay one table over another, key by key."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = merge_table(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def where(layers: Sequence[Layer], key: KeyPath) -> str | None:
    """Tell where a key of the merged data, or its nearest table, is set: ``file:line``, ``file``, or None."""
    # Elements of an array all come from the file that set the array, even where an earlier file's array is longer.
    trunk = next((key[:depth] for depth, part in enumerate(key) if isinstance(part, int)), key)
    for layer in reversed(layers):
        if trunk in layer.lines:
            line = layer.lines[next(key[:depth] for depth in range(len(key), 0, -1) if key[:depth] in layer.lines)]
            return printable(str(layer.path)) + ("" if line is None else f":{line}")
    return None


def nearest(layers: Sequence[Layer], key: KeyPath) -> str | None:
    """Tell where a key, or the table that should have it, is set: ``file:line``, ``file``, or None."""
    return next((place for depth in range(len(key), 0, -1) if (place := where(layers, key[:depth]))), None)


def walk(data: object, base: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield every value inside tables and arrays with its key, outer ones first. Not recursive: depth is hostile."""
    pending = [(base, data)]
    while pending:
        key, value = pending.pop()
        if key != base:
            yield key, value
        if isinstance(value, dict):
            pending += [((*key, name), below) for name, below in value.items()]
        elif isinstance(value, list):
            pending += [((*key, index), below) for index, below in enumerate(value)]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Cut valid TOML at the newlines that end a statement; yield each with the number of its first line."""
    begin = depth = 0
    line = 1
    for token in _TOKEN.finditer(text + "\n"):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth == 0:
                statement = text[begin : token.start()]
                yield line, statement
                begin = token.end()
                line += statement.count("\n") + 1


def _lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    last: dict[KeyPath, int] = {}  # the present element of each array of tables
    table: KeyPath = ()
    for line, statement in _statements(text):
        content = tomllib.loads(statement)
        if statement.lstrip(" \t").startswith("["):
            table = _header(content, last)
            for depth in range(1, len(table) + 1):
                lines.setdefault(table[:depth], line)
        else:
            for key, _ in walk(content, table):
                lines.setdefault(key, line)
    return lines


def _header(content: object, last: dict[KeyPath, int]) -> KeyPath:
    """Give the place in the document of a table header, which by itself parses to ``{"a": {"b": {}}}``."""
    table: KeyPath = ()
    while isinstance(content, dict) and content:
        ((name, content),) = content.items()
        table = (*table, name)
        if isinstance(content, list):
            last[table] = last.get(table, -1) + 1
        if table in last:
            table = (*table, last[table])
    return table
