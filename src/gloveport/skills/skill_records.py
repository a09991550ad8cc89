"""Records about skills, apart from their own claims: who saved each, where it comes from, its approval.

They lie in the state directory, outside of all skills, so that no skill can approve itself. An approval is for one
digest, and for no other bytes.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gloveport.atomic_file import replace_file
from gloveport.errors import ConfigError
from gloveport.file_descriptors import closing
from gloveport.model.constraints import AwareDatetime
from gloveport.model.reading import read_json
from gloveport.model.skill import SkillState
from gloveport.model.value import Value
from gloveport.user_directories import make_private_directory, read_private

_MOST_BYTES = 1 << 20


class Approval(Value):
    """A person's approval of one version of a skill."""

    sha256: str
    without_asking: bool = False
    """Whether the approval also answers yes where a rule asks."""
    uid: int
    at: AwareDatetime


class Staleness(Value):
    """A note that an example of one version of a skill has failed."""

    sha256: str
    why: str


class SkillRecord(Value):
    """The record of one skill. ``SkillRecord()`` is empty."""

    owner: str = ""
    """Owner of the client that saved it; empty if no client did."""
    origin: str = ""
    """Where it was imported from."""
    approval: Approval | None = None
    stale: Staleness | None = None

    def state(self, sha256: str) -> SkillState:
        """The state of a skill with this digest."""
        if self.stale is not None and self.stale.sha256 == sha256:
            return "stale"
        return "approved" if self.approval_of(sha256) is not None else "candidate"

    def approval_of(self, sha256: str) -> Approval | None:
        """The approval of exactly this digest, if there is one."""
        return self.approval if self.approval is not None and self.approval.sha256 == sha256 else None


@dataclass(frozen=True)
class SkillRecords:
    """The records of all skills of one state directory."""

    directory: Path
    _addresses: dict[tuple[Path, int], str] = field(default_factory=dict, init=False, compare=False)
    """Addresses of stores, by place and inode: resolving the links of a path takes long."""

    def get(self, place: Path, name: str) -> SkillRecord:
        """The record of the skill of this name in the store at this place.

        Raises:
            ConfigError: It can't be read, or is invalid.
        """
        path = self._path(place, name)
        try:
            return read_json(SkillRecord, read_private(path, _MOST_BYTES))
        except FileNotFoundError:
            return SkillRecord()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            hint = "remove it: the skill is a candidate then"
            raise ConfigError(f"{path} can't be read: {why}", hint=hint) from error

    def change(self, place: Path, name: str, make: Callable[[SkillRecord], SkillRecord]) -> SkillRecord:
        """Replace a record atomically by one made from it; returns the new one.

        Raises:
            ConfigError: It can't be read or written.
        """
        try:
            with self._lock():
                record = make(self.get(place, name))
                replace_file(self._path(place, name), record.model_dump_json(exclude_defaults=True).encode())
        except OSError as error:
            raise self._unwritable(error) from error
        return record

    def forget(self, place: Path, name: str) -> None:
        """Remove the record of a skill that was removed. Raises ConfigError if it can't be removed."""
        try:
            with self._lock():
                self._path(place, name).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        make_private_directory(self.directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing(os.open(self.directory / "lock", flags, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _path(self, place: Path, name: str) -> Path:
        try:
            key = place, place.stat().st_ino
        except OSError:  # it is not there yet
            key = place, 0
        if key not in self._addresses:  # one directory is one store, whatever path a configuration uses
            self._addresses[key] = hashlib.sha256(os.fsencode(os.path.realpath(place))).hexdigest()[:16]
        return self.directory / f"{name}.{self._addresses[key]}.json"

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"what is known of skills can't be kept in {self.directory}: {error.strerror}",
            hint="make the state directory writable, or set GLOVEPORT_STATE to one that is",
        )
