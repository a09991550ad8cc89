"""Sinks that keep only the end of an output, or nothing."""

from msgspec import Struct, field


class OutputTail(Struct, eq=False, kw_only=True):
    """A ``sandbox.base.Sink`` that keeps the last ``most`` bytes."""

    most: int
    data: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.data += data
        del self.data[: -self.most]

    def full(self) -> bool:
        """Never."""
        return False


class DiscardedOutput:
    """A ``sandbox.base.Sink`` that keeps nothing."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def full(self) -> bool:
        """Never."""
        return False
