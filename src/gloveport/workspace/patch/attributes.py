"""What a file has besides its content: mode, owner, extended attributes, ACLs.

All of it is kept, but never the marks that give a program more rights than who runs it has: they were given to the old
content.
"""

import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

PERMISSIONS: Final = 0o777
_FRESH: Final = 0o644
_OF_THE_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})
"""Rights that a program has, and signatures of what a file held."""

_Bytes: TypeAlias = Annotated[
    bytes,
    BeforeValidator(lambda value: b64decode(value) if isinstance(value, str) else value),
    PlainSerializer(lambda value: b64encode(value).decode()),
]


class Attributes(BaseModel):
    """What a file is given when it is written.

    Attributes:
        mode: Permissions.
        owner: User and group; None: whoever writes it.
        extended: All extended attributes; None: those that its directory gives it.
    """

    model_config = ConfigDict(frozen=True)

    mode: int = _FRESH
    owner: tuple[int, int] | None = None
    extended: Mapping[str, _Bytes] | None = None

    @classmethod
    def of(cls, descriptor: int, status: os.stat_result) -> "Attributes":
        """Those of an open file."""
        extended: dict[str, bytes] = {}
        with suppress(OSError):  # the file system has none
            for name in os.listxattr(descriptor):
                with suppress(OSError):  # gone meanwhile, or not for us to read
                    extended[name] = os.getxattr(descriptor, name)
        owner = (status.st_uid, status.st_gid)
        return cls.model_construct(mode=stat.S_IMODE(status.st_mode), owner=owner, extended=extended)

    @classmethod
    def fresh(cls, directory: int) -> "Attributes":
        """Of a new file: root, who works for others, gives it to the owner of its directory."""
        if os.geteuid() != 0:
            return cls()
        status = os.fstat(directory)
        return cls(owner=(status.st_uid, status.st_gid))

    def give(self, descriptor: int) -> list[str]:
        """Give it to an open file. Nobody else may read the file before: its permissions come last.

        Returns:
            What could not be kept, in words.
        """
        lost = [*self._give_owner(descriptor), *self._give_extended(descriptor)]
        os.fchmod(descriptor, self.mode & PERMISSIONS)
        return lost

    def _give_owner(self, descriptor: int) -> Iterator[str]:
        status = os.fstat(descriptor)
        if self.owner is None or self.owner == (status.st_uid, status.st_gid):
            return
        try:
            os.fchown(descriptor, *self.owner)
        except PermissionError:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, self.owner[1])
            yield "the owner"

    def _give_extended(self, descriptor: int) -> Iterator[str]:
        wanted = self.extended
        if wanted is None:
            return
        try:
            inherited = os.listxattr(descriptor)
        except OSError:
            inherited = []
        for name in {*inherited} - wanted.keys():
            with suppress(OSError):  # security.*, which the system gives by its own rules
                os.removexattr(descriptor, name)
        for name in wanted.keys() - _OF_THE_CONTENT:
            try:
                if name not in inherited or os.getxattr(descriptor, name) != wanted[name]:
                    os.setxattr(descriptor, name, wanted[name])
            except OSError:
                yield f"the extended attribute {name}"
        for name in wanted.keys() & _OF_THE_CONTENT:
            yield f"the extended attribute {name}"
