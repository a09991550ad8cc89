"""The wall clock of one run, which is paused while the run waits for a person. Pausing a called skill's clock pauses
the calling program's too, since that program waits as well.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

from msgspec import Struct


class Clock(Struct, kw_only=True):
    """Counts since it was made or restarted.

    Attributes:
        now: Seconds of a clock that does not jump.
        outer: The clock of the run that has called this one.
    """

    now: Callable[[], float] = time.monotonic
    outer: "Clock | None" = None
    _started: float = 0.0
    _stood: float = 0.0
    """Seconds of all pauses that have ended."""
    _stopped: float | None = None
    _stops: int = 0

    def __post_init__(self) -> None:
        self._started = self.now()

    def restart(self) -> None:
        """Count from now."""
        self._started, self._stood = self.now(), 0.0

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        now = self.now() if self._stopped is None else self._stopped
        return now - self._started - self._stood

    @property
    def is_paused(self) -> bool:
        """Whether it is paused now."""
        return self._stopped is not None

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Pause it inside the context. Contexts may overlap: it continues when the last is left."""
        if not self._stops:
            self._stopped = self.now()
        self._stops += 1
        try:
            with contextlib.nullcontext() if self.outer is None else self.outer.pause():
                yield
        finally:
            self._stops -= 1
            if not self._stops and self._stopped is not None:
                self._stood += self.now() - self._stopped
                self._stopped = None
