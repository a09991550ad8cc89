"""Key paths, and the type of an absolute path on this host."""

import re
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from gloveport.model.described import PATH_HINT, Described

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and indexes into arrays."""

# Control characters would forge lines in logs and error texts; "." and ".." would give one place two spellings.
_CANONICAL = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f]+)+")


def is_canonical(path: str) -> bool:
    """Tell whether a path is absolute, names something below ``/``, and is spelt in the only way there is."""
    return _CANONICAL.fullmatch(path) is not None


def _require_canonical(path: object) -> object:
    if isinstance(path, str) and not is_canonical(path):
        raise ValueError(path)
    return path


AbsolutePath: TypeAlias = Annotated[
    Path,
    BeforeValidator(_require_canonical),
    Described(expected="an absolute path below /", hint=PATH_HINT),
]
