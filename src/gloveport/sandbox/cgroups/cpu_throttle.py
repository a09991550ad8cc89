"""Throttles a program that computes without end, so that the others need not wait.

It gets a small weight: where two such programs keep all processors busy by waking each other, the kernel (seen on 6.18)
lets everybody of their weight wait for seconds.

And it stops for a moment now and then, so that it gives back what it holds in the kernel. A process that waits for a
processor may hold a lock of the whole host: that of all mounts, while it reads their table; the journal of a file
system, while it writes. Where a hundred processes of one program compete, each has its turn after tenths of a second,
and as long does everybody wait who needs the lock. A group that has used up its quota stops where its processes leave
the kernel, and there they hold nothing. So many processes that compute get a quota that is a little less than what they
would take, in short periods.
"""

import time
from typing import Final

from msgspec import Struct, field

from gloveport.model import Limits
from gloveport.sandbox.cgroups.cgroup import Cgroup

LOOK_SECONDS: Final = 0.25
_WEIGHT: Final = 1 / 64
_HEAVY_CPUS: Final = 0.05
"""Who uses more computes."""

_PERIOD_MICROSECONDS: Final = 20_000
_SHARE: Final = 0.9
"""Of what they have taken while they did not stop."""
_RISE: Final = 1.04
"""By so much more they get while they do: others may have left it to them."""
_OFTEN: Final = 0.5
"""Of the periods: in so many they have to stop."""
_LEAST_CPUS: Final = 0.1
"""They get no less. Who may have no more stops often enough."""
_FEW_PROCESSES: Final = 8
"""So many have their turns soon, without a quota."""


class CpuThrottle(Struct, kw_only=True):
    """The weight and the quota of one group.

    Attributes:
        limits: Those of the group: it never gets more.
        spent: Processor seconds that it had used at the last look.
    """

    group: Cgroup
    limits: Limits
    spent: float = 0.0
    _weight: float = 1.0
    _cpus: float | None = None
    _stops: int = 0
    _looked: float = field(default_factory=time.monotonic)

    def look(self, cpu_seconds: float) -> None:
        """Set both for the time to come.

        Args:
            cpu_seconds: Processor time that it has used since it began.

        Raises:
            SandboxError: The group is gone.
        """
        now = time.monotonic()
        if (seconds := now - self._looked) < LOOK_SECONDS:
            return
        cpus = (cpu_seconds - self.spent) / seconds
        self.spent, self._looked = cpu_seconds, now
        weight = _WEIGHT if cpus > _HEAVY_CPUS else 1.0
        if weight != self._weight:
            self.group.set_weight(weight)
            self._weight = weight
        is_slowed = self._cpus is not None  # and stays so, or it would have few processes at each look alone
        if cpus <= _HEAVY_CPUS:
            self._release()
        elif is_slowed or (self.limits.cpus > _LEAST_CPUS and self.group.processes() > _FEW_PROCESSES):
            self._slow_down(cpus, seconds)

    def _release(self) -> None:
        if self._cpus is not None:
            self._cpus = None
            self.group.limit_cpus(self.limits.cpus)

    def _slow_down(self, cpus: float, seconds: float) -> None:
        before, self._stops = self._stops, self.group.throttled_periods()
        periods = seconds * 1_000_000 / _PERIOD_MICROSECONDS
        if self._cpus is not None and self._stops - before >= _OFTEN * periods:
            wanted = _RISE * self._cpus
        else:
            wanted = _SHARE * cpus
        self._cpus = min(max(wanted, _LEAST_CPUS), self.limits.cpus)
        self.group.limit_cpus(self._cpus, _PERIOD_MICROSECONDS)
