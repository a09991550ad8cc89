"""Errors of the workspace's tools: codes that clients know, and facts for programs."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from gloveport.errors import GloveportError
from gloveport.model.json_value import JsonValue
from gloveport.patch_text.patch_error import PatchError

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
"""Error codes of the workspace's tools, which clients know from coding-tools-mcp, with the category of each. Only
``NOT_A_FILE`` (a FIFO, a device, a socket) and ``PROTECTED_PATH`` are ours.
"""

_WORTH_A_RETRY: Final = frozenset(
    {"COMMAND_LIMIT_REACHED", "PATCH_CONFLICT", "PATCH_CONTEXT_AMBIGUOUS", "PATCH_CONTEXT_NOT_FOUND"}
    | {"REVISION_MISMATCH", "REVISION_REQUIRED"}
)


class WorkspaceError(GloveportError):
    """A tool of the workspace can't do what was asked.

    Attributes:
        code: One of ``WORKSPACE_CODES``.
        retryable: Whether the same call may succeed later, or with help of the details.
        details: Facts for programs, as JSON; may hold ``next_action``, a tool call that helps.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        retryable: bool | None = None,
        details: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.category = WORKSPACE_CODES[code]
        self.retryable = code in _WORTH_A_RETRY if retryable is None else retryable
        self.details = dict(details or {})


@contextlib.contextmanager
def translate_patch_errors() -> Iterator[None]:
    """Turn errors of a patch into errors of the tool.

    Raises:
        WorkspaceError: Instead of ``PatchError``.
    """
    try:
        yield
    except PatchError as error:
        raise WorkspaceError(error.code, str(error), hint=error.hint, details=error.details) from error
