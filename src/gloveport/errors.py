"""Every error Gloveport raises, sorted by who can put it right.

    GloveportError
    ├── ConfigError    the operator: a wrong key, value, file or policy
    ├── Denied         the caller: the policy or a limit says no to what was asked
    ├── SandboxError   the host: a wall that is needed can't be built here
    ├── GuestError     the program: it broke the frame protocol, nothing it says is believed
    ├── UpstreamError  the far side: it can't be reached, or does not speak the protocol
    └── AuditError     the operator: the log can't be written or does not verify

The text says what was wrong; ``hint`` says what to do about it.
"""


class GloveportError(Exception):
    """Base of all: a message for whoever can act, and a hint that says how.

    Attributes:
        hint: What to do, in one sentence; empty when the message says it all.
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


class GuestError(GloveportError):
    """What came out of a sandbox does not have the shape that was agreed."""


class UpstreamError(GloveportError):
    """A server that a request was sent to can't be reached, is not who it should be, or breaks the protocol.

    Attributes:
        code: Stable, machine-readable reason, for example ``upstream_timeout``.
    """

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class AuditError(GloveportError):
    """The audit log can't be written, or what is written does not verify."""
