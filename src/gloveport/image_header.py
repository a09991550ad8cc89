"""Detects a picture's format and size by its header: PNG, GIF, JPEG and WEBP.

Nothing is decoded: decoders have a history of memory errors, and decoding a hostile picture belongs in a sandbox. A
header may lie about its picture: whoever decodes it needs limits of its own.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

MAGIC_BYTES: Final = 12
"""How many bytes from the beginning tell the kind."""

_JPEG_SEGMENTS: Final = 10_000
"""A file whose size comes after more segments is made to keep its reader busy."""

_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE: Final = frozenset(range(0xD0, 0xDB)) | {0x00, 0x01}
"""Markers without a segment; none stands before the frame, which holds the size."""


def find_kind(data: bytes) -> str | None:
    """The media type of a picture by its first bytes; None if it is no picture. Names prove nothing."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def read_size(kind: str, data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, as the header of a picture of this kind says; None if it does not."""
    try:
        width, height = _SIZES[kind](data)
    except (struct.error, IndexError):  # it ends within its header
        return None
    return (width, height) if width and height else None


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
