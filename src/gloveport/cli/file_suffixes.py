"""Maps suffixes of files to the languages of programs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gloveport.model import Language

SUFFIXES: "Final[Mapping[str, Language]]" = {
    ".py": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".js": "javascript",
    ".mjs": "javascript",
    ".sh": "shell",
    ".bash": "shell",
}
DEFAULT: "Final[Language]" = "python"
"""The language of a program without a file, or whose file has no suffix."""
