"""Shows the output of a run that has no result: so far while it goes on, all of it where it was cancelled."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from gloveport.model import Output, Stream

Streams: TypeAlias = Mapping[Stream, Output]


class LiveOutput(Struct, eq=False):
    """What one run has written."""

    _read: Callable[[], Streams] = field(default=dict)

    def follow(self, read: Callable[[], Streams]) -> None:
        """From now on ``read`` tells it."""
        self._read = read

    def keep(self, streams: Streams) -> None:
        """No more comes, and this was all."""
        self._read = lambda: streams

    def streams(self) -> Streams:
        """What there is; nothing before the run has a place."""
        return self._read()
