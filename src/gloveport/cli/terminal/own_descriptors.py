"""Opens terminals and pipes that others have, too, for us alone."""

import contextlib
import os
import stat


def reopen(descriptor: int, how: int) -> int:
    """A descriptor of our own for the same terminal or pipe, which does not block; else the very same.

    To make theirs so would make it so for everybody who has it.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or os.isatty(descriptor):
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{descriptor}", how | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return descriptor
