"""Identifies and measures pictures by their headers: their kind, and the size that they claim.

Nothing is decoded here: see ``image_header``.
"""

import os
from typing import Final, NamedTuple

from msgspec import Struct

from gloveport.image_header import MAGIC_BYTES, find_kind, read_size
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.descriptors import read_all
from gloveport.workspace.files.tree import Tree

MAX_SOURCE_BYTES: Final = 32 << 20
"""A larger file is not read at all, not even to make it smaller."""


class PictureBounds(NamedTuple):
    """The bounds of a returned picture: bytes, and pixels in each direction."""

    max_bytes: int
    max_width: int
    max_height: int


class Picture(Struct, frozen=True):
    """A picture as its file has it.

    Attributes:
        path: Its path, links followed.
        data: The whole file.
        mime_type: Its kind by its first bytes; names prove nothing.
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
            or as ``Tree.open_file``.
    """
    with tree.open_file(path) as opened:
        data = None
        if opened.status.st_size <= MAX_SOURCE_BYTES:
            if find_kind(os.pread(opened.descriptor, MAGIC_BYTES, 0)) is None:
                raise _no_picture(opened.path)
            data = read_all(opened.descriptor, MAX_SOURCE_BYTES)
    if data is None:  # also if another process writes to it meanwhile
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
    mime_type = find_kind(data)
    size = read_size(mime_type, data) if mime_type else None
    if mime_type is None or size is None:
        raise _no_picture(path)
    width, height = size
    return Picture(path, data, mime_type, width, height)


def _no_picture(path: str) -> WorkspaceError:
    return WorkspaceError(
        "BINARY_FILE",
        f"{path} is not a PNG, GIF, JPEG or WEBP picture",
        hint="read_file reads text, also that of an SVG; exec_command may convert the file",
        details={"path": path},
    )
