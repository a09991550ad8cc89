"""Recent successful runs, with their program and the rights they used: skills are saved from these."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from gloveport.fairness import choose_forgotten
from gloveport.model import Request, Result
from gloveport.policy.decisions.skill_grant import UsedRight

_MOST: Final = 128
_MOST_BYTES: Final = 32 << 20


class RecentRun(Struct, frozen=True, kw_only=True):
    """A run that succeeded.

    Attributes:
        owner: The owner of the share that it took: nobody else may know of it.
        used: The rights that it used.
        mounts: Paths, inside, of the owner's directories that it could see.
    """

    owner: str
    request: Request
    result: Result
    used: frozenset[UsedRight]
    mounts: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Its approximate size."""
        texts = (self.request.code, self.result.stdout.text, self.result.stderr.text)
        rights = sum(len(right.place) + len(right.path) for right in self.used)
        return sum(map(len, (*texts, *self.request.files.values()))) + rights


class RecentRuns(Struct):
    """The latest runs, kept only in memory.

    Without room, the oldest of the owner with the most goes, so that nobody drives out what others have.
    """

    _runs: dict[str, tuple[RecentRun, int]] = field(default_factory=dict)
    """With their sizes, the oldest first."""

    _bytes: int = 0

    def add(self, run: RecentRun) -> None:
        """Keep a run, and forget others if there are too many, or they are too large."""
        self._runs[run.result.run_id] = run, run.bytes
        self._bytes += run.bytes
        while len(self._runs) > _MOST:
            self._forget([(run_id, run.owner, 1) for run_id, (run, _) in self._runs.items()])
        while self._bytes > _MOST_BYTES:
            self._forget([(run_id, run.owner, size) for run_id, (run, size) in self._runs.items()])

    def find(self, run_id: str, owner: str) -> RecentRun | None:
        """A run of this owner; None if there is none, or no longer."""
        run, _ = self._runs.get(run_id, (None, 0))
        return run if run is not None and run.owner == owner else None

    def _forget(self, entries: Sequence[tuple[str, str, int]]) -> None:
        self._bytes -= self._runs.pop(choose_forgotten(entries))[1]
