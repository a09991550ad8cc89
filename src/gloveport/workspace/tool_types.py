"""Types that several tools of the workspace share: arguments with their bounds, and parts of answers."""

from typing import Annotated, TypeAlias, TypedDict

from gloveport.model.constraints import Constraints
from gloveport.model.json_value import JsonValue
from gloveport.workspace.errors import WorkspaceError

Text: TypeAlias = Annotated[str, Constraints(min_length=1)]
Line: TypeAlias = Annotated[int, Constraints(ge=1)]
Bytes: TypeAlias = Annotated[int, Constraints(ge=1, le=1 << 20)]
ContextLines: TypeAlias = Annotated[int, Constraints(ge=0, le=20)]
Globs: TypeAlias = Annotated[list[str] | None, Constraints(max_length=100)]


class Excerpt(TypedDict):
    """How much was returned, and which bound cut it, if any."""

    truncated: bool
    truncated_by: str | None
    output_lines: int
    output_bytes: int


NextAction: TypeAlias = dict[str, JsonValue]
"""A tool call that helps, or that continues where an answer ended: ``tool`` and ``arguments``."""


def next_action(tool: str, **arguments: JsonValue) -> NextAction:
    """A tool call with these arguments; None values are left out."""
    return {"tool": tool, "arguments": {name: value for name, value in arguments.items() if value is not None}}


def join_arguments(several: list[str] | None, one: str | None) -> tuple[str, ...]:
    """All values of an argument that clients may give as a list, as a single value under another name, or as both."""
    return (*(several or ()), *((one,) if one else ()))


def demand_unicode(text: str, what: str) -> None:
    """Refuse text that can't be encoded as UTF-8: half of a surrogate pair. ``what`` names the text.

    Raises:
        WorkspaceError: INVALID_ARGUMENT.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError("INVALID_ARGUMENT", f"{what} holds half of a surrogate pair") from error
