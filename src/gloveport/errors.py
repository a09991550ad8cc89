"""The errors that Gloveport raises, sorted by who can fix them.

    GloveportError
    ├── ConfigError    the operator: a wrong key, value, file or policy
    ├── Denied         the caller: the policy or a limit says no to what was asked
    ├── SandboxError   the host: a wall that is needed can't be built here
    ├── GuestError     the program: it broke the frame protocol, nothing it says is believed
    ├── UpstreamError  the far side: it can't be reached, or does not speak the protocol
    ├── WorkspaceError the caller: a tool of the workspace can't do what was asked (``workspace/errors.py``)
    └── AuditError     the operator: the log can't be written or does not verify
        └── UnrecordedEndError  what was recorded has taken place, its end can't be recorded

The text says what was wrong; ``hint`` says what to do about it.
"""

import errno
from typing import Final


class GloveportError(Exception):
    """Base of all: a message for the person or program that can act, and a hint that says how.

    Attributes:
        hint: What to do, in one sentence; empty when the message suffices.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message


class ConfigError(GloveportError):
    """The configuration is wrong; one message may list many faults, one a line."""


class Denied(GloveportError):  # noqa: N818 - a refusal is an answer, not a fault
    """The policy, a budget or the admission queue refused an action.

    Attributes:
        code: Stable, machine-readable reason, for example ``language_not_allowed``.
        reason: One sentence without the hint.
    """

    def __init__(self, code: str, reason: str, *, hint: str = "") -> None:
        super().__init__(reason, hint=hint)
        self.code = code
        self.reason = reason


class SandboxError(GloveportError):
    """A sandbox of the demanded strength can't be built on this host."""


class ForkRefusedError(SandboxError):
    """No process that bubblewrap starts on this host may make namespaces: there can be no fork server."""


class GuestError(GloveportError):
    """Data from a sandbox does not have the agreed shape."""


class UpstreamError(GloveportError):
    """The server of a request can't be reached, is not the expected one, or breaks the protocol.

    Attributes:
        code: Stable, machine-readable reason, for example ``upstream_timeout``.
    """

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class AuditError(GloveportError):
    """The audit log can't be written, or what is written does not verify."""


class UnrecordedEndError(AuditError):
    """An action was recorded and has taken place, and its end can't be recorded: to repeat it does it twice."""


MORE_FILES: Final = "raise the hard limit of open files: `ulimit -Hn 65536`, or LimitNOFILE=65536 of the unit"

_EXHAUSTED: Final = {
    errno.EMFILE: (
        "the server has no descriptor left for it",
        "try again when other calls have ended; the owner can raise the server's hard limit of open files (ulimit -Hn)",
    ),
    errno.ENFILE: (
        "this host has no descriptor left for it",
        "try again when other programs have ended; the owner of the host can raise fs.file-max",
    ),
}


def find_exhaustion(error: BaseException) -> tuple[str, str] | None:
    """The exhausted resource behind an error, and what to do about it; None where the error has another cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _EXHAUSTED:
            return _EXHAUSTED[cause.errno]
        cause = cause.__cause__ or cause.__context__
    return None
