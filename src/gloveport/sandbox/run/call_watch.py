"""Enforces the limits of one call of a session: interrupts it, then kills its interpreter, then the sandbox."""

import contextlib
import math
import socket
import time

from gloveport.model import LimitName
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.cpu_throttle import CpuThrottle
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.limit_watch import LimitWatch

_STEPS: tuple[tuple[float, str], ...] = ((0.0, "interrupt"), (1.0, "interrupt"), (2.0, "kill"), (7.0, "end"))
"""What is done so many seconds after a limit was exceeded, while the call goes on. The second interrupt ends what the
first could not: it cancels an ``await``, and the program may have caught it."""


class CallWatch(LimitWatch, kw_only=True):
    """Watches one call, or the time between two.

    Attributes:
        channel: To the supervisor inside.
        number: Of the call.
        oom_kills: How many there had been before it.
        is_answered: Whether it is over.
        throttle: The session's, which knows what weight and quota its cgroup has.
    """

    channel: socket.socket
    number: int
    oom_kills: int = 0
    is_answered: bool = False
    throttle: CpuThrottle | None = None
    _step: int = 0
    _stopping: float = math.inf
    """When the first step was taken."""

    def __post_init__(self) -> None:
        self._pace = self.throttle

    @property
    def seconds_left(self) -> float:
        """Until something has to be done."""
        if self._stopping < math.inf:
            return max(0.0, self._stopping + _STEPS[min(self._step, len(_STEPS) - 1)][0] - time.monotonic())
        return super().seconds_left

    def look(self) -> None:
        """Do what is due."""
        if self._stopping < math.inf:
            self._take_steps()
        else:
            super().look()

    def kill(self, limit: LimitName) -> None:
        """Stop the call for this limit. Memory and what is between calls end the sandbox: nothing else helps."""
        self.broken = self.broken or limit
        if limit == "memory_bytes" or self.wall_seconds == math.inf:
            self.end_all()
        else:
            self.stop()

    def stop(self) -> None:
        """Begin to stop the call."""
        if self._stopping == math.inf and not self.is_answered:
            self._stopping = time.monotonic()
            self._take_steps()

    def end(self) -> None:
        """The call is over, or the sandbox: neither ends the other."""

    def end_all(self) -> None:
        """Kill the whole sandbox."""
        if self.group is not None:
            with contextlib.suppress(OSError):
                self.group.lift_quota()
        super().end()

    def _take_steps(self) -> None:
        passed = time.monotonic() - self._stopping
        while self._step < len(_STEPS) and passed >= _STEPS[self._step][0]:
            what = _STEPS[self._step][1]
            self._step += 1
            if what == "end" or not self._send_step(what):
                self.end_all()

    def _send_step(self, what: str) -> bool:
        """Have the supervisor do it; whether it could be told."""
        frame = frames.encode({what: self.number})
        try:
            return self.channel.send(frame) == len(frame)
        except OSError:  # it does not read, or is dead
            return False

    def _check(self, counters: cgroup.Counters) -> None:
        if counters.oom_kills > self.oom_kills:
            self.kill("memory_bytes")
        elif counters.cpu_seconds - self.spent >= self.limits.cpu_seconds:
            self.kill("cpu_seconds")
