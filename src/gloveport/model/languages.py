"""The languages of programs, and where a sandbox has what they need."""

from typing import Annotated, Literal, TypeAlias, get_args

from gloveport.model.constraints import Serializer

Language: TypeAlias = Literal["python", "typescript", "javascript", "shell"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Languages: TypeAlias = Annotated[frozenset[Language], Serializer(sorted)]

SCRATCH = "/tmp"  # noqa: S108 - a private tmpfs of the sandbox, not the host's
"""Home and only large writable directory of a program."""

OUT = "/out"
"""Where a program leaves files that are kept when it has ended: a private tmpfs as well."""

OUT_LINKS = ("/mnt/data", "/mnt/user-data/outputs")
"""Other names of it, which models know."""

GUEST = "/opt/gloveport"
"""Where the files of ``gloveport/guest`` lie inside a sandbox."""

PRIVATE = "/run/gloveport"
"""Small tmpfs for what an interpreter must write besides the program's scratch."""
