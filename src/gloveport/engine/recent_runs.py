"""Recent successful runs, with their program and the rights they used: skills are saved from these."""

from collections import OrderedDict
from typing import Final

from msgspec import Struct, field

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
        return len(self.request.code) + sum(map(len, self.request.files.values())) + len(self.result.stdout.text)


class RecentRuns(Struct):
    """The latest runs, kept only in memory."""

    _runs: OrderedDict[str, RecentRun] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def add(self, run: RecentRun) -> None:
        """Keep a run; the oldest go when there are too many, or they are too large."""
        self._runs[run.result.run_id] = run
        self._bytes += run.bytes
        while len(self._runs) > _MOST or (self._bytes > _MOST_BYTES and len(self._runs) > 1):
            _, oldest = self._runs.popitem(last=False)
            self._bytes -= oldest.bytes

    def find(self, run_id: str, owner: str) -> RecentRun | None:
        """A run of this owner; None if there is none, or no longer."""
        run = self._runs.get(run_id)
        return run if run is not None and run.owner == owner else None
