"""The inputs of a lock, and the name of the lock that follows from them."""

import hashlib
from collections.abc import Mapping
from typing import Final

from gloveport.model.value import Value

_FORMAT: Final = "1"
"""Part of each address: changes when a tree would be built differently."""

_ADDRESS_CHARACTERS: Final = 32


class LockRequest(Value):
    """All that a lock depends on."""

    build: tuple[str, ...] = ()
    """Packages to build from source, each ``NAME==VERSION``."""

    package_lock: str = ""
    """Path of a ``package-lock.json`` that restricts the versions; empty for none."""

    @property
    def specifiers(self) -> tuple[str, ...]:
        """The requirements."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Name of its lock. Fields left at their defaults do not change it."""
        return make_address(self.model_dump_json(exclude_defaults=True))


class PythonLockRequest(LockRequest):
    """All that a lock of packages of Python depends on."""

    requirements: tuple[str, ...]
    indexes: tuple[str, ...]
    cooldown_days: float
    interpreter: str
    """Implementation and version, as extension modules name it."""

    @property
    def specifiers(self) -> tuple[str, ...]:
        """See ``LockRequest``."""
        return self.requirements


class NpmLockRequest(LockRequest):
    """All that a lock of packages of npm depends on."""

    npm: tuple[str, ...]
    registry: str
    scopes: Mapping[str, str]
    cooldown_days: float

    @property
    def specifiers(self) -> tuple[str, ...]:
        """See ``LockRequest``."""
        return self.npm


def make_address(*parts: str) -> str:
    """Name of a stored object that depends only on these values."""
    return hashlib.sha256("\0".join((_FORMAT, *parts)).encode()).hexdigest()[:_ADDRESS_CHARACTERS]
