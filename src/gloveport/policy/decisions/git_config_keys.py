"""Tells which git configuration keys a command may write: those that do no harm when the owner calls git later.

None names a program, a file, another configuration or a new address. So no remote can be added: a later ``git push`` or
``git fetch --all`` of the owner would go to an address of the agent's choice. Pure.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from msgspec import Struct

from gloveport.late_pattern import late_pattern
from gloveport.untrusted_text import is_visible

_MOST_CHARACTERS: Final = 256
_BRANCH: Final = late_pattern(r"(?!-)[^\s\"\\~^:?*\[\]]+")
_SWITCHES: Final = frozenset({"true", "false"})


class ConfigKey(NamedTuple):
    """A key as git compares it: section and name in lower case, the subsection unchanged; None where there is none."""

    section: str
    subsection: str | None
    name: str

    def __str__(self) -> str:
        """The spelling of ``git config``."""
        return ".".join(part for part in self if part is not None)


class Repository(Struct, frozen=True, kw_only=True):
    """Trusted facts of a repository: no command has made them.

    Attributes:
        remotes: Names of its remotes.
        submodules: The addresses in ``.gitmodules``, resolved, by submodule.
    """

    remotes: AbstractSet[str]
    submodules: Mapping[str, AbstractSet[str]]


def may_write(key: ConfigKey, values: Sequence[str | None], repository: Repository) -> bool:
    """Whether a key may be set to these values; an empty list removes it."""
    if len(values) > 1 or not (key.subsection is None or _is_branch(key.subsection)):
        return False
    value = values[0] if values else None
    if values and (value is None or not is_visible(value) or len(value) > _MOST_CHARACTERS):
        return False
    accepted: AbstractSet[str]
    match key.section, key.subsection, key.name:
        case "user", None, "name" | "email":
            return value is None or {'"', "\\"}.isdisjoint(value)
        case "branch", str(), "merge":
            return value is None or (value.startswith("refs/heads/") and _is_branch(value))
        case "branch", str(), "remote":
            accepted = {".", *repository.remotes}
        case ("branch", str(), "rebase") | ("pull", None, "rebase"):
            accepted = _SWITCHES
        case "pull", None, "ff":
            accepted = {*_SWITCHES, "only"}
        case "submodule", str() as name, "url":
            accepted = repository.submodules.get(name, frozenset())
        case "submodule", str() as name, "active":
            accepted = _SWITCHES if name in repository.submodules else frozenset()
        case _:
            return False
    return value is None or value in accepted


def resolve_address(address: str, base: str) -> str:
    """Resolve a submodule's address as git does: it may be relative to that of the repository's remote."""
    if not address.startswith(("./", "../")):
        return address
    base, separator = base.rstrip("/"), "/"
    while address.startswith(("./", "../")):
        step, _, address = address.partition("/")
        if step == "..":
            separator = "/" if "/" in base else ":"
            base = base.rpartition(separator)[0]
    return f"{base}{separator}{address}".rstrip("/")


def _is_branch(name: str) -> bool:
    return len(name) <= _MOST_CHARACTERS and is_visible(name) and bool(_BRANCH.fullmatch(name)) and ".." not in name
