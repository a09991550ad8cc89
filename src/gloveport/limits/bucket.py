"""How often something may be done: a bucket that fills up steadily and that each time takes from."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Bucket:
    """A token bucket. It begins full.

    Attributes:
        capacity: What it holds at most, so how much may be done at one moment.
        seconds: In which it fills up when it was empty.
        now: Seconds of a clock that does not jump.
    """

    capacity: float
    seconds: float
    now: Callable[[], float] = time.monotonic
    _level: float = field(init=False)
    _seen: float = field(init=False)

    def __post_init__(self) -> None:
        self._level, self._seen = self.capacity, self.now()

    def take(self) -> float:
        """Take one token. Returns 0, or the seconds until there will be one where there is none."""
        now = self.now()
        self._level = min(self.capacity, self._level + (now - self._seen) * self.capacity / self.seconds)
        self._seen = now
        if self._level < 1:
            return (1 - self._level) * self.seconds / self.capacity
        self._level -= 1
        return 0.0
