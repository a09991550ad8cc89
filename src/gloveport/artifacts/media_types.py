"""Detects the type of a file: by its first bytes where they tell it, else by its name. A name proves nothing.

Nothing is decoded. Active content such as HTML and SVG gets its true type, and is shown as text only.
"""

from pathlib import PurePosixPath
from typing import Final

from gloveport.image_header import find_kind

HEAD_BYTES: Final = 1 << 16
"""How many first bytes are looked at: the header of a JPEG picture may have its size that far in."""

UNKNOWN: Final = "application/octet-stream"

_BY_MAGIC: Final = {
    b"%PDF-": "application/pdf",
    b"PAR1": "application/vnd.apache.parquet",
    b"\x1f\x8b": "application/gzip",
    b"SQLite format 3\0": "application/vnd.sqlite3",
}
_ZIPPED: Final = {
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_TEXTS: Final = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".html": "text/html",
    ".htm": "text/html",
    ".svg": "image/svg+xml",
    ".md": "text/markdown",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".geojson": "application/geo+json",
    ".xml": "application/xml",
    ".tex": "text/x-tex",
    ".css": "text/css",
    ".js": "text/javascript",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
}


def find_type(path: str, head: bytes) -> str:
    """Detect the media type of a file by its name, and by its first ``HEAD_BYTES``, or all of it."""
    if picture := find_kind(head):
        return picture
    suffix = PurePosixPath(path).suffix.lower()
    if head.startswith(b"PK\x03\x04"):
        return _ZIPPED.get(suffix, "application/zip")
    for magic, kind in _BY_MAGIC.items():
        if head.startswith(magic):
            return kind
    if not is_text(head):
        return UNKNOWN
    return _TEXTS.get(suffix, "text/plain")


def is_text(head: bytes) -> bool:
    """Tell whether these first bytes are UTF-8 text; the last character may be cut off."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start > len(head) - 4
    return True
