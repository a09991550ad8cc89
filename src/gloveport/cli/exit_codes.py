"""Exit codes of commands."""

import errno
import sys
from collections.abc import Mapping
from signal import SIGPIPE
from typing import Final

from gloveport.errors import Denied, GloveportError, GuestError, SandboxError

OF_A_RUN: Final[Mapping[str, int]] = {"ok": 0, "error": 1, "killed": 1, "denied": 3, "timeout": 124, "cancelled": 130}
"""Exit codes by the status of the result."""


def of_error(error: GloveportError) -> int:
    """2: usage or configuration; 3: denied; 4: no sandbox can be built here."""
    if isinstance(error, SandboxError | GuestError):
        return 4
    return 3 if isinstance(error, Denied) else 2


def of_unwritten(error: OSError) -> int:
    """Report that output could not be written; silently if its reader has gone, as other programs do."""
    if error.errno == errno.EPIPE:
        return 128 + SIGPIPE
    sys.stderr.write(f"gloveport: the output can't be written: {error.strerror}\n")
    return 1
