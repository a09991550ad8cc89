"""Watches the limits that no kernel setting enforces: kills a run that exceeds one, and keeps which it was."""

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
        clock: What the run's wall-clock limit is counted by.
        inner: Process descriptor of the sandbox's init: killing it kills all of the sandbox.
        held: What the kernel holds for it.
        wall_seconds: Its time, where that is not the limits'.
        spent: Processor seconds that were spent before the program came.
        broken: The limit for which the sandbox was killed.
    """

    limits: Limits
    clock: Clock
    group: cgroup.Cgroup | None
    inner: int
    held: KernelMemory
    wall_seconds: float | None = None
    spent: float = 0.0
    broken: LimitName | None = None
    _ended: bool = False
    _pace: CpuThrottle | None = None

    def __post_init__(self) -> None:
        self._pace = None if self.group is None else CpuThrottle(group=self.group, limits=self.limits, spent=self.spent)

    @property
    def seconds_left(self) -> float:
        """Until it has to end, if the clock does not stop before; infinity where it stands, or the run has ended."""
        if self._ended or self.clock.is_paused:
            return math.inf
        return (self.limits.wall_seconds if self.wall_seconds is None else self.wall_seconds) - self.clock.seconds

    def look(self) -> None:
        """End the run if it has broken a limit."""
        if self._ended:
            return
        if self.seconds_left <= 0:
            self.kill("wall_seconds")
        elif self.held.is_exceeded():
            self.kill("memory_bytes")
        elif self.group is not None:
            try:
                counters = self.group.counters()
                self._check(counters)
                if self._pace is not None and not self._ended:
                    self._pace.look(counters.cpu_seconds)
            except (SandboxError, OSError):  # somebody removed the group, and the limits with it; ``finish`` says so
                self.end()

    def kill(self, limit: LimitName) -> None:
        """End the whole sandbox for this limit; the first one named is the cause."""
        self.broken = self.broken or limit
        if self.group is not None:
            self.group.lift_quota()
        self.end()

    def finish(self) -> cgroup.Counters | None:
        """The final accounts. A program that the kernel's memory killer ended may be gone before anybody looked."""
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
        if counters.oom_kills:
            self.kill("memory_bytes")
        elif counters.cpu_seconds - self.spent >= self.limits.cpu_seconds:
            self.kill("cpu_seconds")
