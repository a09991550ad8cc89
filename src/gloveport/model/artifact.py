"""Values of artifacts: files, such as pictures, that a program leaves besides its output."""

from typing import Annotated

from gloveport.model.constraints import Constraints
from gloveport.model.reading import CheckedValue
from gloveport.model.value import Value


class Artifact(CheckedValue):
    """A file that a program has left in ``OUT``, kept for a while."""

    uri: str
    """By which it is read: ``artifact://ID/NUMBER``."""

    path: str
    """Where the program has left it. Printable; no control, link or ``..`` is in it."""

    mime_type: str
    """By what it holds where that can be told; else by its name."""

    bytes: int
    sha256: str
    """Hex digest of what is kept."""

    width: Annotated[int, Constraints(ge=1)] | None = None
    """Of a picture, as its header says."""

    height: Annotated[int, Constraints(ge=1)] | None = None
    about: str = ""
    """What the program's interpreter says of it, one line: of a chart axes and series, of a table shape and types."""

    not_shown: str = ""
    """Why a picture can't be shown."""


class Artifacts(Value):
    """What a program has left."""

    files: tuple[Artifact, ...] = ()
    left_out: tuple[str, ...] = ()
    """Paths of what was not taken, and why; the first of them where there are many."""

    left_out_total: int = 0
    expires_in_seconds: int = 0
    """How long the files are kept, if no others need the room."""

    directory: str = ""
    """Of the workspace, in which they lie as well; empty where they don't."""

    not_written: tuple[str, ...] = ()
    """Paths in the workspace of those that do not, and why."""
