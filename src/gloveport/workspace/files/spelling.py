r"""The spelling of paths on the wire: relative to the root, ``/`` between their parts, "." for the root.

A name may hold any bytes. UTF-8 stays as it is, except control characters, which would end a line of an answer or act
on a terminal. Their bytes, and all others, are written ``\x`` and two hexadecimal digits, and a backslash that would
look like such an escape is ``\x5c``. So each name has one spelling, and all are valid Unicode.
"""

import os
import re
from functools import lru_cache
from typing import Final

from gloveport.late_pattern import late_pattern
from gloveport.untrusted_text import shorten
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.tool_types import demand_unicode

MAX_PATH_BYTES: Final = 4096
"""Of a requested path: PATH_MAX. This bounds all work for its parts, or for a message."""

MAX_NAME_BYTES: Final = 255
"""Of each of its parts: NAME_MAX."""

_ABSOLUTE: Final = late_pattern(r"/|[A-Za-z]:[\\/]")
_ESCAPE: Final = late_pattern(r"\\x(0[1-9a-f]|1[0-9a-f]|5c|7f|[89a-f][0-9a-f])")
_LIKE_AN_ESCAPE: Final = late_pattern(rb"\\(?=x(?:0[1-9a-f]|1[0-9a-f]|5c|7f|[89a-f][0-9a-f]))")
_CONTROL: Final = late_pattern(r"[\x01-\x1f\x7f-\x9f]")


def spell_path(name: bytes) -> str:
    """The one spelling of a name, or of a path, of any bytes. ``raw`` takes it back."""
    text = (_LIKE_AN_ESCAPE.sub(rb"\\x5c", name) if b"\\" in name else name).decode(errors="backslashreplace")
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    return "".join(f"\\x{byte:02x}" for byte in found.group().encode())


def raw(path: str) -> bytes:
    """The bytes of a spelling. Of the bytes below 0x80 only the backslash and control characters can be escaped: no
    ``/`` is hidden, and no NUL.

    Raises:
        UnicodeEncodeError: It holds half of a surrogate pair.
    """
    if "\\" not in path:
        return path.encode()
    pieces = _ESCAPE.split(path)  # text, digits, text, digits, …, text
    return b"".join(bytes.fromhex(piece) if odd % 2 else piece.encode() for odd, piece in enumerate(pieces))


def is_utf8(name: bytes) -> bool:
    """Whether the bytes of a name are UTF-8."""
    return name.decode(errors="ignore").encode() == name


def parent_of(path: str) -> str:
    """The path of the parent directory."""
    return path.rpartition("/")[0] or "."


def native_name(path: str) -> str:
    """The last part of a path, as functions of ``os`` take it."""
    return os.fsdecode(raw(path.rpartition("/")[2]))


@lru_cache(256)  # one call checks the same few paths again and again
def check_path(path: str) -> str:
    """The canonical spelling of a requested path: no empty part, no ".". It need not exist.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, ABSOLUTE_PATH_DENIED, PATH_OUTSIDE_WORKSPACE.
    """
    demand_unicode(path, "a path")
    name = raw(path)
    if len(name) > MAX_PATH_BYTES or any(len(part) > MAX_NAME_BYTES for part in name.split(b"/")):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"{shorten(path)} is longer than {MAX_PATH_BYTES} bytes, or a name in it is longer than {MAX_NAME_BYTES}",
            hint="no file system takes it: choose a shorter one",
        )
    if not path or "\0" in path:
        raise WorkspaceError("INVALID_ARGUMENT", "a path is empty or holds a NUL", hint='the root is "."')
    if _ABSOLUTE.match(path):
        hint = "write it relative to the root of the workspace"
        raise WorkspaceError("ABSOLUTE_PATH_DENIED", f"{shorten(path)} is absolute", hint=hint)
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        hint = "write the path from the root of the workspace"
        raise WorkspaceError("PATH_OUTSIDE_WORKSPACE", f"{shorten(path)} has a part ..", hint=hint)
    return spell_path(raw("/".join(parts))) or "."
