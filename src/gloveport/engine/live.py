"""Shows the output of a run without a result: a running one's output so far, a cancelled one's whole output."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from gloveport.model import Output, Stream

Streams: TypeAlias = Mapping[Stream, Output]


class LiveOutput(Struct, eq=False):
    """The output of one run."""

    _read: Callable[[], Streams] = field(default=dict)

    def follow(self, read: Callable[[], Streams]) -> None:
        """Read the output from ``read`` from now on."""
        self._read = read

    def streams(self) -> Streams:
        """The output so far; empty before the run has a place."""
        return self._read()
