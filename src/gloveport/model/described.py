"""Describes the values of a type: an annotation that is shown for a wrong value, and in the reference."""

from typing import Annotated, Final, TypeAlias

from msgspec import Struct

from gloveport.model.constraints import Constraints


class Described(Struct, frozen=True, kw_only=True):
    """Metadata of a type: ``Annotated[str, Constraints(...), Described(...)]``.

    Attributes:
        expected: Completes "expected ...".
        hint: How to write a value.
        may_hold_secret: Whether a person may have put a secret there by mistake: then no message shows the value.
    """

    expected: str
    hint: str
    may_hold_secret: bool = False


PATH_HINT: Final = (
    'write the whole path from "/" on, without ".", ".." or a slash too many; "~" and variables are not expanded'
)
ABSOLUTE_PATH: Final = Described(expected="an absolute path", hint=PATH_HINT)

PathText: TypeAlias = Annotated[str, Constraints(pattern=r"^/[^\x00]+$"), ABSOLUTE_PATH]
