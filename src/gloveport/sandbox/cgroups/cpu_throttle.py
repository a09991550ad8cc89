"""Throttles a program that computes without end, so that others need not wait.

It gets a small weight: when two such programs keep all processors busy by waking each other, the kernel (seen on 6.18)
lets all groups of their weight wait for seconds. And a quota stops it for a moment now and then, so that it releases
its locks in the kernel. A process that waits for a processor may hold a lock of the whole host: that of all mounts,
while it reads their table; the journal of a file system, while it writes. When a hundred processes of one program
compete, each gets its turn after tenths of a second, and everybody who needs the lock waits as long. A group that has
used up its quota stops where its processes leave the kernel, where they hold no locks. So a program with many computing
processes gets a quota a little below its use, in short periods.
"""

import time
from typing import Final

from msgspec import Struct, field

from gloveport.model import Limits
from gloveport.sandbox.cgroups.cgroup import Cgroup

LOOK_SECONDS: Final = 0.25
_WEIGHT: Final = 1 / 64
_HEAVY_CPUS: Final = 0.05
"""A program that uses more counts as computing."""

_PERIOD_MICROSECONDS: Final = 20_000
_SHARE: Final = 0.9
"""The quota, as a share of the use without stops."""
_RISE: Final = 1.04
"""The quota grows by this factor while they stop: other programs may have left them the time."""
_OFTEN: Final = 0.5
"""The share of periods in which they have to stop."""
_LEAST_CPUS: Final = 0.1
"""The least quota. A program limited to this stops often enough."""
_FEW_PROCESSES: Final = 8
"""So few processes get their turns soon, without a quota."""


class CpuThrottle(Struct, kw_only=True):
    """The weight and the quota of one group.

    Attributes:
        limits: The limits of the group, which it never exceeds.
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
        """Set the weight and the quota for the next time, by the processor time that it has used since it began.

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
        is_slowed = self._cpus is not None  # once slowed it stays so: it could have few processes just when we look
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
            next_cpus = _RISE * self._cpus
        else:
            next_cpus = _SHARE * cpus
        self._cpus = min(max(next_cpus, _LEAST_CPUS), self.limits.cpus)
        self.group.limit_cpus(self._cpus, _PERIOD_MICROSECONDS)
