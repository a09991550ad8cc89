"""Checks the paths of files that come with a program: they must be plain paths below its directory."""

from collections.abc import Collection
from typing import Final

from gloveport.untrusted_text import is_visible, one_line

MOST_FILES: Final = 64
_DEPTH: Final = 8
_NAME_BYTES: Final = 200
_SHOWN_CHARACTERS: Final = 80


def find_path_fault(path: str) -> str:
    """Why a path is not allowed; empty if it is."""
    printable_path = one_line(path, _SHOWN_CHARACTERS)
    too_long = f"The file name {printable_path} is too long or too deep."
    if len(path) > _DEPTH * (_NAME_BYTES + 1):  # before more is done with it
        return too_long
    names = path.split("/")
    if not is_visible(path):
        return f"The file name {printable_path} has characters that do not show."
    if any(name in ("", ".", "..") for name in names):
        return f"The file name {printable_path} is no path below the program's directory."
    if len(names) > _DEPTH or any(len(name.encode()) > _NAME_BYTES for name in names):
        return too_long
    return ""


def find_clash(paths: Collection[str]) -> str:
    """Why these paths can't be files of one directory together; empty if they can."""
    if len(paths) > MOST_FILES:
        return f"There are {len(paths)} files, and no more than {MOST_FILES} may come with a program."
    for path in paths:
        names = path.split("/")
        for length in range(1, len(names)):
            if (above := "/".join(names[:length])) in paths:
                return f"{one_line(above, _SHOWN_CHARACTERS)} can't be a file and the directory of another."
    return ""
