"""What running a command takes: the command as it is decided about, and whoever moves its input and output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gloveport.model.workspace import RunCommand
from gloveport.sandbox.console import Console


@dataclass(frozen=True, kw_only=True)
class PreparedCommand:
    """A command whose gates were read, ready to be decided and run.

    Attributes:
        action: What is decided about.
        variables: The caller's environment.
        seconds: It is ended after so long.
        terminal: Rows and columns; None for pipes.
    """

    action: RunCommand
    variables: Mapping[str, str]
    seconds: float
    terminal: tuple[int, int] | None


class Attachment(Protocol):
    """Whoever moves the input and output of a program, while it runs.

    Attributes:
        warnings: Gets what should be looked at when the program has ended.
    """

    warnings: list[str]

    def begin(self, console: Console) -> None:
        """It has begun."""

    async def finish(self) -> None:
        """It has ended: return when all that it has said is passed on. It must not take long."""
