"""Pictures of the workspace: which kind a file is, how large it says it is, and its bytes.

Only a few bytes of the header are looked at, and by hand: what decodes a picture has a history of memory errors, and
decoding a hostile one belongs in a sandbox. A header may lie about its picture: whoever decodes it keeps own limits.
"""

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.descriptors import read_all
from gloveport.workspace.files.tree import Tree

MAX_SOURCE_BYTES: Final = 32 << 20
"""A larger file is not even read in order to be made smaller."""

_MAGIC: Final = 12
_JPEG_SEGMENTS: Final = 10_000
"""Where the size comes only after more segments, the file is made to keep its reader busy."""

_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE: Final = frozenset(range(0xD0, 0xDB)) | {0x00, 0x01}
"""Markers without a segment; before the frame, that holds the size, there are none."""


class PictureBounds(NamedTuple):
    """What a picture that comes back may have: bytes, and pixels in each direction."""

    max_bytes: int
    max_width: int
    max_height: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as its file has it.

    Attributes:
        path: Where it lies, links followed.
        data: The whole file.
        mime_type: By its first bytes; names prove nothing.
        width: In pixels, as the header says.
        height: In pixels, as the header says.
    """

    path: str
    data: bytes
    mime_type: str
    width: int
    height: int

    def exceeds(self, bounds: PictureBounds) -> bool:
        """Whether it is larger, in bytes or in pixels."""
        pairs = zip((len(self.data), self.width, self.height), bounds, strict=True)
        return any(size > most for size, most in pairs)


def read_image(tree: Tree, path: str) -> Picture:
    """Read a PNG, GIF, JPEG or WEBP picture; nothing is decoded.

    Raises:
        WorkspaceError: BINARY_FILE for what is no such picture, an SVG too; OUTPUT_TOO_LARGE over ``MAX_SOURCE_BYTES``;
            or as ``Tree.file``.
    """
    with tree.file(path) as opened:
        data = None
        if opened.status.st_size <= MAX_SOURCE_BYTES:
            if _kind(os.pread(opened.descriptor, _MAGIC, 0)) is None:
                raise _no_picture(opened.path)
            data = read_all(opened.descriptor, MAX_SOURCE_BYTES)
    if data is None:  # also where somebody writes to it meanwhile
        raise WorkspaceError(
            "OUTPUT_TOO_LARGE",
            f"{opened.path} has more than {MAX_SOURCE_BYTES} bytes",
            hint="make it smaller with exec_command",
            details={"path": opened.path},
        )
    return picture_of(opened.path, data)


def picture_of(path: str, data: bytes) -> Picture:
    """The picture that these bytes are.

    Raises:
        WorkspaceError: BINARY_FILE.
    """
    mime_type = _kind(data)
    if mime_type is None:
        raise _no_picture(path)
    try:
        width, height = _SIZES[mime_type](data)
    except (struct.error, IndexError):
        width = height = 0  # it ends within its header
    if not width or not height:
        raise _no_picture(path)
    return Picture(path, data, mime_type, width, height)


def _kind(magic: bytes) -> str | None:
    if magic.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if magic.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if magic.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if magic.startswith(b"RIFF") and magic[8:12] == b"WEBP":
        return "image/webp"
    return None


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">4sII", data, 12)[1:] if data[12:16] == b"IHDR" else (0, 0)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    for _ in range(_JPEG_SEGMENTS):
        mark, kind, length = struct.unpack_from(">BBH", data, place)
        if mark != 0xFF or kind in _JPEG_ALONE or length < 2:
            break
        if kind == 0xFF:  # fill: a marker may have any number of these before it
            place += 1
            continue
        if kind in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + length
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            return 0, 0


_SIZES: Final[Mapping[str, Callable[[bytes], tuple[int, int]]]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}


def _no_picture(path: str) -> WorkspaceError:
    return WorkspaceError(
        "BINARY_FILE",
        f"{path} is not a PNG, GIF, JPEG or WEBP picture",
        hint="read_file reads text, also that of an SVG; exec_command may convert the file",
        details={"path": path},
    )
