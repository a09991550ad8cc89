"""Watches the limits that no kernel setting enforces: kills a run that exceeds one, and notes which."""

import contextlib
import math
import signal

from msgspec import Struct

from gloveport.errors import SandboxError
from gloveport.model import LimitName, Limits
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.cpu_throttle import CpuThrottle
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock


class LimitWatch(Struct, kw_only=True):
    """Watches one run.

    Attributes:
        clock: Counts the run's wall-clock limit.
        inner: Process descriptor of the sandbox's init: killing it kills all of the sandbox.
        wall_seconds: Its time limit, if different from the plan's.
        spent: Processor seconds used before the program came.
        oom_kills: The cgroup's count of these before that.
        broken: The limit for which the sandbox was killed.
    """

    limits: Limits
    clock: Clock
    group: cgroup.Cgroup | None
    inner: int
    kernel_memory: KernelMemory
    wall_seconds: float | None = None
    spent: float = 0.0
    oom_kills: int = 0
    broken: LimitName | None = None
    _ended: bool = False
    _pace: CpuThrottle | None = None

    def __post_init__(self) -> None:
        self._pace = None if self.group is None else CpuThrottle(group=self.group, limits=self.limits, spent=self.spent)

    @property
    def seconds_left(self) -> float:
        """Seconds until it has to end, unless the clock is paused before; infinite if it is paused, or the run has
        ended.
        """
        if self._ended or self.clock.is_paused:
            return math.inf
        return (self.limits.wall_seconds if self.wall_seconds is None else self.wall_seconds) - self.clock.seconds

    def look(self) -> None:
        """End the run if it has broken a limit."""
        if self._ended:
            return
        if self.seconds_left <= 0:
            self.kill("wall_seconds")
        elif self.kernel_memory.is_exceeded():
            self.kill("memory_bytes")
        elif self.group is not None:
            try:
                counters = self.group.counters()
                self._check(counters)
                if self._pace is not None and not self._ended:
                    self._pace.look(counters.cpu_seconds)
            except (SandboxError, OSError):  # the group was removed, and its limits with it; ``finish`` reports that
                self.end()

    def kill(self, limit: LimitName) -> None:
        """End the whole sandbox for this limit; the first such limit is the cause."""
        self.broken = self.broken or limit
        if self.group is not None:
            self.group.lift_quota()
        self.end()

    def finish(self) -> cgroup.Counters | None:
        """The final counters. A program killed by the kernel's OOM killer may have gone before any look."""
        if self.group is None:
            return None
        counters = self.group.counters()
        self._check(counters)
        return counters

    def end(self) -> None:
        """Kill what is left of the sandbox."""
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.inner, signal.SIGKILL)

    def _check(self, counters: cgroup.Counters) -> None:
        if counters.oom_kills > self.oom_kills:
            self.kill("memory_bytes")
        elif counters.cpu_seconds - self.spent >= self.limits.cpu_seconds:
            self.kill("cpu_seconds")
