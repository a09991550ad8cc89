"""A circuit breaker: whoever fails again and again is left alone for a while, longer each time."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

_FAILURES = 5
"""In a row, after which it opens."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


class Breaker(Struct, kw_only=True):
    """Closed, everybody may try. Open, nobody. Half-open, the next one may, and its outcome decides.

    Attributes:
        clock: Seconds, from any beginning.
        failures: How many there were in a row.
    """

    clock: Callable[[], float]
    failures: int = 0
    _until: float = 0.0
    _trying: bool = False

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Whether it is closed, open or half-open just now."""
        if self.failures < _FAILURES:
            return "closed"
        return "open" if self._trying or self.clock() < self._until else "half-open"

    @property
    def wait(self) -> float:
        """Seconds until somebody may try again; 0 where that is now."""
        return max(0.0, self._until - self.clock()) if self.state == "open" else 0.0

    def admit(self) -> bool:
        """Whether to try now. Who is let in tells the outcome: :meth:`succeed`, :meth:`fail` or :meth:`give_up`."""
        state = self.state
        self._trying |= state == "half-open"
        return state != "open"

    def succeed(self) -> None:
        """Close."""
        self.failures, self._trying, self._until = 0, False, 0.0

    def fail(self) -> None:
        """One more in a row; from the fifth on it opens for 1, 2, 4 and so on up to 60 seconds."""
        self.failures, self._trying = self.failures + 1, False
        if self.failures >= _FAILURES:
            doublings = min(self.failures - _FAILURES, 10)
            self._until = self.clock() + min(_LONGEST_SECONDS, _SHORTEST_SECONDS * 2**doublings)

    def give_up(self) -> None:
        """There is no outcome."""
        self._trying = False
