"""A circuit breaker: a server that fails repeatedly is not tried for a while, longer each time."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

_FAILURES = 5
"""Failures in a row that open the breaker."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


class Breaker(Struct, kw_only=True):
    """Closed: every attempt is admitted. Open: none. Half-open: one is admitted, and its outcome decides.

    Attributes:
        clock: A clock in seconds.
        failures: Number of failures in a row.
    """

    clock: Callable[[], float]
    failures: int = 0
    _until: float = 0.0
    _trying: bool = False

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """The state at this moment."""
        if self.failures < _FAILURES:
            return "closed"
        return "open" if self._trying or self.clock() < self._until else "half-open"

    @property
    def wait(self) -> float:
        """Seconds until the next attempt is admitted; 0 for now."""
        return max(0.0, self._until - self.clock()) if self.state == "open" else 0.0

    def admit(self) -> bool:
        """Whether to try now. Who is admitted reports the outcome: :meth:`succeed`, :meth:`fail` or :meth:`give_up`."""
        state = self.state
        self._trying |= state == "half-open"
        return state != "open"

    def succeed(self) -> None:
        """Report a success: close."""
        self.failures, self._trying, self._until = 0, False, 0.0

    def fail(self) -> None:
        """Report a failure. From the fifth in a row on, open for 1, 2, 4 and so on up to 60 seconds."""
        self.failures, self._trying = self.failures + 1, False
        if self.failures >= _FAILURES:
            doublings = min(self.failures - _FAILURES, 10)
            self._until = self.clock() + min(_LONGEST_SECONDS, _SHORTEST_SECONDS * 2**doublings)

    def give_up(self) -> None:
        """Report that the attempt has no outcome."""
        self._trying = False
