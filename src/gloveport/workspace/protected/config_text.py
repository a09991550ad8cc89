"""Reads and edits the text of a git configuration: only the strict syntax that git writes, so that no two readers
differ.

Anything ambiguous is an error: a carriage return, a NUL, a section with two kinds of subsection.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field

from gloveport.late_pattern import late_pattern
from gloveport.policy.decisions.git_config_keys import ConfigKey

# No possessive repetition of groups with an alternative or a repetition: Python 3.11.2 of Debian matches them wrongly.
_HEADER: Final = late_pattern(r'\[([A-Za-z0-9-]+)(?:\.([A-Za-z0-9.-]+)|[ \t]+"([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*)")?\]')
_ENTRY: Final = late_pattern(
    r"([A-Za-z][A-Za-z0-9-]*+)[ \t]*+"
    r'(?:=[ \t]*+((?:[^"\\\n#;]++|\\[ntb"\\\n]|"[^"\\\n]*+(?:\\[ntb"\\\n][^"\\\n]*+)*")*)(?:[#;][^\n]*+)?)?(?:\n|\Z)'
)
_BLANK: Final = late_pattern(r"[ \t\n]*+(?:[#;][^\n]*+[ \t\n]*+)*")
_PIECE: Final = late_pattern(r'\\(.|\n)|"|[^"\\]+')
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", "\n": ""}

Values: TypeAlias = Mapping[ConfigKey, tuple[str | None, ...]]
"""The values of each key, in order; None is a key without a value, which means true."""


class _Block(Struct, kw_only=True):
    """A section, starting with its header."""

    name: tuple[str, str | None]
    start: int
    body: int
    """Offset of the line after its header, or of its first entry."""
    entries: list[tuple[ConfigKey, str | None, int, int]] = field(default_factory=list)
    """Key, value, and the offsets where its lines begin and end."""


def decode(text: bytes) -> str:
    """Decode a file of any bytes; ``encode`` reverses it."""
    return text.decode(errors="surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a decoded text."""
    return text.encode(errors="surrogateescape")


def read_values(text: str) -> Values:
    """The values of a configuration. Raises ValueError if it is ambiguous."""
    values: dict[ConfigKey, tuple[str | None, ...]] = {}
    for block in _blocks(text):
        for key, value, _, _ in block.entries:
            values[key] = (*values.get(key, ()), value)
    return values


def set_values(text: str, changes: Mapping[ConfigKey, Sequence[str | None]]) -> str:
    """The text with these keys set; a key without values is removed, and so is a section that becomes empty.

    Raises:
        ValueError: It is ambiguous, or an entry to change stands in the line of its section's header.
    """
    expected = {**read_values(text), **{key: tuple(values) for key, values in changes.items()}}
    for key, values in changes.items():
        text = _set(text, key, "".join(f"\t{key.name} = {_quote(value or '')}\n" for value in values))
    if read_values(text) != {key: values for key, values in expected.items() if values}:
        raise ValueError("it would not say what it should")
    return text


def _set(text: str, key: ConfigKey, lines: str) -> str:
    blocks = [block for block in _blocks(text) if block.name == key[:2]]
    old = [(start, end) for block in blocks for found, _, start, end in block.entries if found == key]
    if any(start and text[start - 1] != "\n" for start, _ in old):
        raise ValueError("a key stands in the line of its section")
    if old:
        at = old[0][0]
    elif blocks:
        at = max([blocks[-1].body, *(end for _, _, _, end in blocks[-1].entries)])
    else:
        at = len(text)
        section = key.section if key.subsection is None else f'{key.section} "{key.subsection}"'
        lines = lines and f"[{section}]\n{lines}"
    if lines and at and text[at - 1] != "\n":
        lines = "\n" + lines
    for start, end in reversed(old):
        text = text[:start] + text[end:]
    text = text[:at] + lines + text[at:]
    return text if lines else _drop_empty(text, key[:2])


def _drop_empty(text: str, name: tuple[str, str | None]) -> str:
    blocks = _blocks(text)
    ends = [*(block.start for block in blocks[1:]), len(text)]
    for block, end in reversed([*zip(blocks, ends, strict=True)]):
        if block.name == name and not text[block.body : end].strip() and text[block.start : block.body].endswith("]\n"):
            text = text[: block.start] + text[end:]
    return text


def _blocks(text: str) -> list[_Block]:
    if "\r" in text or "\0" in text:
        raise ValueError("it holds a carriage return or a NUL")
    blocks: list[_Block] = []
    position = _skip(text, 0)
    while position < len(text):
        if text[position] == "[":
            header = _HEADER.match(text, position)
            if header is None:
                raise ValueError("it has a section that is not read plainly")
            section, dotted, quoted = header.groups()
            name = section.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else dotted and dotted.lower()
            start = text.rfind("\n", 0, position) + 1  # with the blanks before it
            if text[start:position].strip(" \t"):
                raise ValueError("it has two sections in one line")
            line = text.find("\n", header.end()) + 1 or len(text)
            position = _skip(text, header.end())
            blocks.append(_Block(name=name, start=start, body=min(line, position)))
            continue
        entry = _ENTRY.match(text, position)
        if entry is None or not blocks:
            raise ValueError("it has a line that is not read plainly")
        value = None if entry[2] is None else _unquote(entry[2])
        before = text.rfind("\n", 0, position) + 1
        start = before if not text[before:position].strip(" \t") else position
        blocks[-1].entries.append((ConfigKey(*blocks[-1].name, entry[1].lower()), value, start, entry.end()))
        position = _skip(text, entry.end())
    return blocks


def _skip(text: str, position: int) -> int:
    """The next offset that is neither blank nor in a comment."""
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _unquote(raw: str) -> str:
    """A value without quotes, escapes, and unquoted trailing blanks."""
    read, end, quoted = "", 0, False
    for piece in _PIECE.finditer(raw):
        if piece[0] == '"':
            quoted = not quoted
        elif piece[1]:
            read += _ESCAPES.get(piece[1], piece[1])
        else:
            read += piece[0]
            if not quoted:
                end = max(end, len(read.rstrip(" \t")))
                continue
        end = len(read)
    return read[:end]


def _quote(value: str) -> str:
    """A value without quotes, backslashes and line ends, as git writes it."""
    return f'"{value}"' if value != value.strip() or {"#", ";"} & {*value} else value
