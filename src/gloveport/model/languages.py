"""The languages of programs, and the directories of a sandbox."""

from typing import Annotated, Literal, TypeAlias, get_args

from gloveport.model.constraints import Serializer

Language: TypeAlias = Literal["python", "typescript", "javascript", "shell"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Languages: TypeAlias = Annotated[frozenset[Language], Serializer(sorted)]

SCRATCH = "/tmp"  # noqa: S108 - a private tmpfs of the sandbox, not the host's
"""A program's home, and its only large writable directory."""

OUT = "/out"
"""Where a program leaves files that are kept after its end: also a private tmpfs."""

OUT_LINKS = ("/mnt/data", "/mnt/user-data/outputs")
"""Other names of ``OUT``, which models know."""

GUEST = "/opt/gloveport"
"""Where the files of ``gloveport/guest`` are inside a sandbox."""

PRIVATE = "/run/gloveport"
"""A small tmpfs for files that an interpreter must write outside the program's scratch directory."""
