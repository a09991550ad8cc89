"""Reopens shared terminals and pipes, for descriptors with flags of our own."""

import contextlib
import os
import stat


def reopen(descriptor: int, how: int) -> int:
    """Open a non-blocking descriptor for the same terminal or pipe; return the given one if that fails.

    O_NONBLOCK on the given one would affect everybody who shares it.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or os.isatty(descriptor):
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{descriptor}", how | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return descriptor
