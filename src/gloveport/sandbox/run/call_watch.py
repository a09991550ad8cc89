"""Enforces the limits of one call of a session: interrupts it, then kills its interpreter, then the sandbox."""

import contextlib
import math
import socket
import time
from collections.abc import Mapping

from gloveport.model import LimitName
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.cpu_throttle import CpuThrottle
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.limit_watch import LimitWatch

_STEPS: tuple[tuple[float, str], ...] = ((0.0, "interrupt"), (1.0, "interrupt"), (2.0, "kill"), (7.0, "end"))
"""Actions so many seconds after a limit was exceeded, while the call still runs. The second interrupt ends programs
that survived the first: the first cancels an ``await``, and the program may have caught it.
"""

_KILL_STEP = 2


class CallWatch(LimitWatch, kw_only=True):
    """Watches one call, or the time between two.

    Attributes:
        channel: To the supervisor inside.
        is_answered: Whether the call is over.
        is_direct: Whether the call went directly to the interpreter, which may then answer directly.
        throttle: The session's throttle, which knows the weight and quota of its cgroup.
    """

    channel: socket.socket
    number: int
    is_answered: bool = False
    is_direct: bool = False
    throttle: CpuThrottle | None = None
    _is_announced: bool = False
    _step: int = 0
    _stopping: float = math.inf
    """Time of the first step."""

    def __post_init__(self) -> None:
        self._pace = self.throttle

    @property
    def seconds_left(self) -> float:
        """Seconds until the next action is due."""
        if self._stopping < math.inf:
            return max(0.0, self._stopping + _STEPS[min(self._step, len(_STEPS) - 1)][0] - time.monotonic())
        return super().seconds_left

    def awaits(self, message: Mapping[str, JsonValue]) -> bool:
        """Whether this direct message may be the answer. Once the supervisor was told to kill, only its answer
        counts.
        """
        return self.is_direct and message.get("call") == self.number and self._step <= _KILL_STEP

    def look(self) -> None:
        """Do what is due. The supervisor acts first: it may undo a call that would end the sandbox here."""
        if self._announce():
            return
        if self._stopping < math.inf:
            self._take_steps()
        else:
            super().look()

    def kill(self, limit: LimitName) -> None:
        """Stop the call for this limit. A limit of the kernel's memory, or between calls, ends the sandbox: nothing
        else helps.
        """
        self.broken = self.broken or limit
        if limit == "memory_bytes" or self.wall_seconds == math.inf:
            self.end_all()
        else:
            self.stop()

    def stop(self, step: int = 0) -> None:
        """Begin to stop the call, with this one of ``_STEPS``."""
        if self._stopping == math.inf and not self.is_answered:
            self._stopping, self._step = time.monotonic(), step
            self._take_steps()

    def end(self) -> None:
        """Note the end of the call or the sandbox: neither ends the other."""

    def end_all(self) -> None:
        """Kill the whole sandbox."""
        if self.group is not None:
            with contextlib.suppress(OSError):
                self.group.lift_quota()
        super().end()

    def _take_steps(self) -> None:
        self._announce()
        passed = time.monotonic() - self._stopping
        while self._step < len(_STEPS) and passed >= _STEPS[self._step][0]:
            what = _STEPS[self._step][1]
            self._step += 1
            if what == "end" or not self._send({what: self.number}):
                self.end_all()

    def _announce(self) -> bool:
        """Have the supervisor watch the call; false if it already does."""
        if not self.is_direct or self._is_announced:
            return False
        self._is_announced = True
        if not self._send({"call": self.number, "branch": 0, "language": "python", "do": "attend"}):
            self.end_all()
        return True

    def _send(self, message: Mapping[str, object]) -> bool:
        """Send a message to the supervisor; false if that was impossible."""
        frame = frames.encode(message)
        try:
            return self.channel.send(frame) == len(frame)
        except OSError:  # the supervisor does not read, or is dead
            return False

    def _check(self, counters: cgroup.Counters) -> None:
        if counters.oom_kills > self.oom_kills and self.wall_seconds != math.inf:
            # The kernel has ended the interpreter, whose call the supervisor is about to undo, or a child of it.
            self.broken = self.broken or "memory_bytes"
            self.stop(_KILL_STEP)
        else:
            super()._check(counters)
