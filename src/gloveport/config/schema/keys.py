"""Key paths, and the type of an absolute path on this host."""

from pathlib import Path
from typing import Annotated, TypeAlias

from gloveport.model.constraints import Parser
from gloveport.model.described import PATH_HINT, Described
from gloveport.user_directories import is_canonical

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path to a value: names of tables and keys, and indexes into arrays."""


def _parse_path(path: object) -> Path:
    if not isinstance(path, str | Path) or not is_canonical(str(path)):
        raise ValueError(path)
    return Path(path)


AbsolutePath: TypeAlias = Annotated[
    Path,
    Parser(_parse_path),
    Described(expected="an absolute path below /", hint=PATH_HINT),
]
