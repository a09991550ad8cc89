"""Limits how often something may be done: a token bucket, which fills up steadily."""

import time
from collections.abc import Callable

from msgspec import Struct


class Bucket(Struct, kw_only=True):
    """A token bucket. It begins full.

    Attributes:
        capacity: The most that it holds, so how much may be done at one moment.
        seconds: Time in which it fills up from empty.
        now: Seconds of a clock that does not jump.
    """

    capacity: float
    seconds: float
    now: Callable[[], float] = time.monotonic
    _level: float = 0.0
    _updated_at: float = 0.0

    def __post_init__(self) -> None:
        self._level, self._updated_at = self.capacity, self.now()

    def take(self, amount: float = 1) -> float:
        """Take so much. Returns 0, or, if there is no token, the seconds until there is one. ``amount`` may be more
        than there is: a cost that is known only afterwards is owed.
        """
        now = self.now()
        self._level = min(self.capacity, self._level + (now - self._updated_at) * self.capacity / self.seconds)
        self._updated_at = now
        if self._level < 1:
            return (1 - self._level) * self.seconds / self.capacity
        self._level -= amount
        return 0.0

    def owe(self, amount: float) -> None:
        """Take so much, even if there is less: it has been used already."""
        self._level -= amount
