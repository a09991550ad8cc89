"""Key paths, and the type of an absolute path on this host."""

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from gloveport.model.described import PATH_HINT, Described
from gloveport.user_directories import is_canonical

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and indexes into arrays."""


def _require_canonical(path: object) -> object:
    if isinstance(path, str) and not is_canonical(path):
        raise ValueError(path)
    return path


AbsolutePath: TypeAlias = Annotated[
    Path,
    BeforeValidator(_require_canonical),
    Described(expected="an absolute path below /", hint=PATH_HINT),
]
