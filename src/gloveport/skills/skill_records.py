"""What is known of skills besides what they say themselves: who saved each, where it comes from, what was approved.

This lies in the state directory, outside of all skills, so that none can speak for itself. An approval is of a digest:
of any other bytes there is none.
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
from gloveport.model.constraints import AwareDatetime
from gloveport.model.reading import read_json
from gloveport.model.skill import SkillState
from gloveport.model.value import Value
from gloveport.openat2 import closing


class Approval(Value):
    """That a person has approved a skill as it was."""

    sha256: str
    without_asking: bool = False
    """Whether a rule that asks is answered with yes by this, as well."""
    uid: int
    at: AwareDatetime


class Staleness(Value):
    """That an example of a skill has failed."""

    sha256: str
    why: str


class SkillRecord(Value):
    """What is known of one skill. ``SkillRecord()``: nothing."""

    owner: str = ""
    """Whose client has saved it; empty where no client has."""
    origin: str = ""
    """Where it was imported from."""
    approval: Approval | None = None
    stale: Staleness | None = None

    def state(self, sha256: str) -> SkillState:
        """How a skill with this digest stands."""
        if self.stale is not None and self.stale.sha256 == sha256:
            return "stale"
        return "approved" if self.approval_of(sha256) is not None else "candidate"

    def approval_of(self, sha256: str) -> Approval | None:
        """The approval of exactly this; None where there is none."""
        return self.approval if self.approval is not None and self.approval.sha256 == sha256 else None


@dataclass(frozen=True)
class SkillRecords:
    """The records of all skills of one state directory."""

    directory: Path
    _addresses: dict[tuple[Path, int], str] = field(default_factory=dict, init=False, compare=False)
    """Of stores, by their place and inode: to resolve the links of a path takes long."""

    def get(self, place: Path, name: str) -> SkillRecord:
        """Of the skill of this name in the store at this place.

        Raises:
            ConfigError: It can't be read, or is none.
        """
        path = self._path(place, name)
        try:
            return read_json(SkillRecord, path.read_bytes())
        except FileNotFoundError:
            return SkillRecord()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} can't be read", hint="remove it: the skill is a candidate then") from error

    def change(self, place: Path, name: str, make: Callable[[SkillRecord], SkillRecord]) -> SkillRecord:
        """Keep another record, made from the one that there is, with nobody between. Returns it.

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
        """Know nothing any more of a skill, which is gone.

        Raises:
            ConfigError: It can't be removed.
        """
        try:
            with self._lock():
                self._path(place, name).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing(os.open(self.directory / "lock", flags, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _path(self, place: Path, name: str) -> Path:
        try:
            key = place, place.stat().st_ino
        except OSError:  # it is not there yet
            key = place, 0
        if key not in self._addresses:  # one directory is one store, by whatever name a configuration calls it
            self._addresses[key] = hashlib.sha256(os.fsencode(os.path.realpath(place))).hexdigest()[:16]
        return self.directory / f"{name}.{self._addresses[key]}.json"

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"what is known of skills can't be kept in {self.directory}: {error.strerror}",
            hint="make the state directory writable, or set GLOVEPORT_STATE to one that is",
        )
