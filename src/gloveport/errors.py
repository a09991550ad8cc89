"""Every error Gloveport raises, sorted by who can put it right.

    GloveportError
    ├── ConfigError    the operator: a wrong key, value, file or policy
    ├── Denied         the caller: the policy or a limit says no to what was asked
    ├── SandboxError   the host: a wall that is needed can't be built here
    ├── GuestError     the program: it broke the frame protocol, nothing it says is believed
    ├── UpstreamError  the far side: it can't be reached, or does not speak the protocol
    ├── WorkspaceError the caller: a tool of the workspace can't do what was asked
    └── AuditError     the operator: the log can't be written or does not verify

The text says what was wrong; ``hint`` says what to do about it.
"""

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from pydantic import JsonValue


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


class ForkRefusedError(SandboxError):
    """This host lets nothing that bubblewrap starts make namespaces: there is no fork server, and none will be."""


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


Category: TypeAlias = Literal["validation", "security", "permission", "runtime", "not_found", "conflict", "internal"]

WORKSPACE_CODES: Final[Mapping[str, Category]] = {
    "ABSOLUTE_PATH_DENIED": "security",
    "BINARY_FILE": "validation",
    "COMMAND_CLOSED": "conflict",
    "COMMAND_LIMIT_REACHED": "runtime",
    "COMMAND_NOT_FOUND": "not_found",
    "COMMAND_SPAWN_FAILED": "runtime",
    "ELICITATION_UNSUPPORTED": "permission",
    "GIT_ERROR": "runtime",
    "IDEMPOTENCY_KEY_REUSED": "conflict",
    "INTERNAL_ERROR": "internal",
    "INVALID_ARGUMENT": "validation",
    "IS_DIRECTORY": "validation",
    "NOT_A_DIRECTORY": "validation",
    "NOT_A_FILE": "validation",
    "NOT_FOUND": "not_found",
    "OUTPUT_TOO_LARGE": "runtime",
    "PATCH_CONFLICT": "conflict",
    "PATCH_CONTEXT_AMBIGUOUS": "validation",
    "PATCH_CONTEXT_NOT_FOUND": "validation",
    "PATCH_FAILED": "validation",
    "PATCH_HUNKS_OVERLAP": "validation",
    "PATCH_ROLLBACK_FAILED": "internal",
    "PATH_OUTSIDE_WORKSPACE": "security",
    "PERMISSION_REQUIRED": "permission",
    "PROTECTED_PATH": "security",
    "REVISION_MISMATCH": "conflict",
    "REVISION_REQUIRED": "validation",
    "RUNTIME_DIR_UNWRITABLE": "runtime",
    "SANDBOX_UNAVAILABLE": "runtime",
    "SYMLINK_ESCAPE": "security",
    "TTY_UNSUPPORTED": "runtime",
    "UNSUPPORTED_ENCODING": "validation",
}
"""Codes of the tools of the workspace, which clients know from coding-tools-mcp, and what kind of fault each is.

Ours alone are ``NOT_A_FILE`` (a FIFO, a device, a socket) and ``PROTECTED_PATH``.
"""

_WORTH_A_RETRY: Final = frozenset(
    {"COMMAND_LIMIT_REACHED", "PATCH_CONFLICT", "PATCH_CONTEXT_AMBIGUOUS", "PATCH_CONTEXT_NOT_FOUND"}
    | {"REVISION_MISMATCH", "REVISION_REQUIRED"}
)


class WorkspaceError(GloveportError):
    """A tool of the workspace can't do what was asked.

    Attributes:
        code: One of ``WORKSPACE_CODES``.
        category: What kind of fault it is.
        retryable: Whether the same may succeed later, or with what the details tell.
        details: Facts for programs, as JSON; may hold ``next_action``, the call of a tool that helps.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        retryable: bool | None = None,
        details: "Mapping[str, JsonValue] | None" = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.category = WORKSPACE_CODES[code]
        self.retryable = code in _WORTH_A_RETRY if retryable is None else retryable
        self.details = dict(details or {})


class AuditError(GloveportError):
    """The audit log can't be written, or what is written does not verify."""


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
    """What was used up, and what to do about it, where that is what an error comes from; None where it is not."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _EXHAUSTED:
            return _EXHAUSTED[cause.errno]
        cause = cause.__cause__ or cause.__context__
    return None
