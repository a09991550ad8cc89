"""Parses git's patches: finds their files, and cuts them to size."""

import re
from collections.abc import Iterator
from typing import Final, NotRequired, TypedDict

from gloveport.patch_text.text import count_lines
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace.tool_types import Excerpt

MAX_BYTES: Final = 262_144
"""The most bytes of a returned patch, by default."""

_SECTION: Final = re.compile(rb"^(?:diff --(git|cc|combined) |\* Unmerged path )(.*)$", re.MULTILINE)
_BODY: Final = re.compile(rb"^@@", re.MULTILINE)
_NAMED: Final = re.compile(rb"^(rename to|rename from|\+\+\+|---) (.*)$", re.MULTILINE)
_STATUS: Final = re.compile(rb"^(new|deleted) file mode ", re.MULTILINE)
_BINARY: Final = re.compile(rb"^Binary files ", re.MULTILINE)
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_SHORT: Final = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_STATUSES: Final = {b"new": "added", b"deleted": "deleted"}


class File(TypedDict):
    """A file of a patch: ``added``, ``deleted`` or ``modified``. One that was renamed is modified."""

    path: str
    status: str
    binary: bool
    original_path: NotRequired[str]


def find_files(patch: bytes) -> list[File]:
    """The files of a patch, each once. No line of a file's content begins like the headers searched for here."""
    patch = patch[: patch.rfind(b"\n") + 1]  # a truncated name would be another file's
    found: dict[str, File] = {}
    starts = list(_SECTION.finditer(patch))
    ends = [start.start() for start in starts[1:]] + [len(patch)]
    for start, end in zip(starts, ends, strict=False):
        body = _BODY.search(patch, start.end(), end)
        if file := _file(start, patch[start.end() : body.start() if body else end]):
            found.setdefault(file["path"], file)
    return list(found.values())


def cut_text(text: bytes, max_bytes: int) -> tuple[str, Excerpt]:
    """The text, or its beginning: whole lines if there are any, and whole characters.

    Invalid UTF-8 becomes replacement characters. ``max_bytes`` counts after that.
    """
    whole = text.decode(errors="replace").encode()
    head, is_cut = whole[:max_bytes], len(whole) > max_bytes
    if is_cut:
        head = head[: head.rfind(b"\n") + 1] or head
    excerpt = head.decode(errors="ignore")
    excerpt_bytes = excerpt.encode()
    return excerpt, {
        "truncated": is_cut,
        "truncated_by": "bytes" if is_cut else None,
        "output_lines": count_lines(excerpt_bytes),
        "output_bytes": len(excerpt_bytes),
    }


def quote_name(name: bytes) -> bytes:
    """A name as in patches: quoted if it has characters that would end it."""
    if not re.search(rb'[\x00-\x1f\x7f"\\]', name):
        return name
    return b'"' + re.sub(rb'[\x00-\x1f\x7f"\\]', lambda sign: b"\\%03o" % sign[0][0], name) + b'"'


def _file(start: re.Match[bytes], header: bytes) -> File | None:
    names = dict(_names(header))
    kind, rest = start.groups()
    if b"rename to" in names:
        path = names[b"rename to"]
    elif b"+++" in names or b"---" in names:
        path = next(names[sign] for sign in (b"+++", b"---") if names.get(sign, b"/dev/null") != b"/dev/null")[2:]
    elif kind == b"git":  # "a/name b/name", with the same name twice
        path, again = _plain(rest[: len(rest) // 2])[2:], _plain(rest[len(rest) // 2 + 1 :])[2:]
        if path != again:  # the patch ends within the header of a renamed file
            return None
    else:
        path = _plain(rest)
    status = _STATUS.search(header)
    file: File = {
        "path": spell_path(path),
        "status": _STATUSES[status[1]] if status else "modified",
        "binary": _BINARY.search(header) is not None,
    }
    if b"rename from" in names:
        file["original_path"] = spell_path(names[b"rename from"])
    return file


def _names(header: bytes) -> Iterator[tuple[bytes, bytes]]:
    for sign, name in _NAMED.findall(header):
        yield sign, _plain(name.removesuffix(b"\t"))  # behind a name with a blank in it


def _plain(name: bytes) -> bytes:
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(_unescape, name.removeprefix(b'"').removesuffix(b'"'))


def _unescape(found: re.Match[bytes]) -> bytes:
    sign = found[1]
    return bytes((int(sign, 8) & 0xFF,)) if len(sign) > 1 else _SHORT.get(sign, sign)
