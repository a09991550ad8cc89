"""The error of a patch that can't be parsed or does not fit."""

from collections.abc import Mapping
from typing import Any


class PatchError(Exception):
    """A patch can't be parsed or applied.

    Attributes:
        code: One of ``workspace.errors.WORKSPACE_CODES``.
        hint: What to do about it.
        details: Facts for programs, as JSON.
    """

    def __init__(self, code: str, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.details = dict(details or {})
