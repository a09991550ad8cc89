"""Programs that ran and succeeded a while ago, with what they did: what a skill is saved from."""

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
        owner: Whose share it took: nobody else may know of it.
        used: What it was let do.
        mounts: Paths inside of the owner's directories that it could see.
    """

    owner: str
    request: Request
    result: Result
    used: frozenset[UsedRight]
    mounts: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How much of it is kept, about."""
        return len(self.request.code) + sum(map(len, self.request.files.values())) + len(self.result.stdout.text)


class RecentRuns(Struct):
    """The last of them, in memory alone."""

    _runs: OrderedDict[str, RecentRun] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def add(self, run: RecentRun) -> None:
        """Keep one; the oldest go when there are many, or much of them."""
        self._runs[run.result.run_id] = run
        self._bytes += run.bytes
        while len(self._runs) > _MOST or (self._bytes > _MOST_BYTES and len(self._runs) > 1):
            _, gone = self._runs.popitem(last=False)
            self._bytes -= gone.bytes

    def find(self, run_id: str, owner: str) -> RecentRun | None:
        """One of this owner's; None where there is none, or no longer."""
        run = self._runs.get(run_id)
        return run if run is not None and run.owner == owner else None
