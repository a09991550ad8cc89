"""Suggests the line of the configuration that would show a command the program that it did not find.

It looks for a name along the owner's ``PATH``, and at the links of the workspace. It does not reveal whether any other
file exists on the host.
"""

import re
from pathlib import Path
from typing import Final

from gloveport.config import find_program
from gloveport.late_pattern import late_pattern
from gloveport.untrusted_text import one_line

_NOT_FOUND: Final = late_pattern(
    r"(?:^|[:\s])(?P<name>[\w.+/-]{1,256}): (?:command not found|not found|No such file or directory)\s*$", re.MULTILINE
)
_TOOLS: Final = frozenset({"apply_patch", "edit_file"})
"""Tools of other agents, which models call as programs."""

_MOST_CHARACTERS: Final = 64 << 10
_MOST_LINKS: Final = 8


def explain_missing(output: str, root: Path, path: str) -> str:
    """The line with which a command would find what it reported as not found; empty where nothing would help.
    ``output`` is that of a command that has ended with 127, ``path`` the owner's ``PATH``.
    """
    match = _NOT_FOUND.search(output[-_MOST_CHARACTERS:])
    if match is None:
        return ""
    name = match["name"]
    if name in _TOOLS:
        return f"{name} is no program here but a tool: call it with the same text"
    if "/" not in name:
        found = find_program(name, {"PATH": path}, root)
        return _line(name, found) if found else ""
    target = _follow(root, Path(name))
    return _line(name, target) if target is not None else ""


def _follow(root: Path, name: Path) -> Path | None:
    """Where a link of the workspace leads, if that is outside; else None."""
    if name.is_absolute():  # by itself it says nothing of the workspace
        return None
    place = root / name
    for _ in range(_MOST_LINKS):
        if ".." in place.parts or not place.is_relative_to(root):
            return place if place.is_absolute() and ".." not in place.parts else None
        if not place.is_symlink():
            return None
        place = place.parent / place.readlink()
    return None


def _line(name: str, program: Path) -> str:
    directory = program.parent.parent if program.parent.name == "bin" else program.parent
    where = one_line(str(directory), 200)
    return f"{one_line(name, 80)} is in {where}: the owner can add that to workspace.toolchains"
