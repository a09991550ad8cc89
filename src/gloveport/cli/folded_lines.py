"""Prints lines with untrusted text, each folded before the terminal would wrap it.

A terminal continues a long line at its left edge, where the rest looks like a line of its own. Here it begins with a
mark that no line of ours begins with.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Final

import typer

_MARK: Final = "> "
_NARROWEST: Final = 20


def echo_lines(lines: Iterable[str]) -> None:
    """Print printable lines, of which none begins with ``> ``."""
    width = max(shutil.get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else sys.maxsize
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        # Escaped before it is measured: a character that the terminal lacks must not end the output, nor make it wider.
        shown = line.encode(encoding, "backslashreplace").decode(encoding)
        typer.echo("\n".join(_fold_line(shown, width)))


def _fold_line(line: str, width: int) -> Iterator[str]:
    """Break a line into parts that fit. A character beyond ASCII may take two columns: which do, terminals disagree."""
    if len(line) <= width and line.isascii():
        yield line
        return
    part, columns = "", 0
    for character in line:
        size = 1 if character.isascii() else 2
        if columns + size > width:
            yield part
            part, columns = _MARK, len(_MARK)
        part += character
        columns += size
    yield part
