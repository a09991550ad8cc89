"""What running a command takes: the command as it is decided about, and whoever moves its input and output."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from gloveport.model.workspace import RunCommand
from gloveport.sandbox.console import Console
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.protected.protected_paths import ProtectedPaths

Take: TypeAlias = Callable[[ProtectedPaths], AbstractAsyncContextManager[Confined]]
"""Gives a sandbox in which this is kept. Raises SandboxError, WorkspaceError."""


class CommandEnvironment(Struct, frozen=True, kw_only=True):
    """What commands have besides the workspace: packages and programs of an environment, or none.

    Attributes:
        name: The operator's name of it; None for none.
        plan: Of their sandboxes.
        take: Where those come from.
        variables: What commands are told of it.
    """

    name: str | None
    plan: Plan
    take: Take
    variables: Mapping[str, str]


class PreparedCommand(Struct, frozen=True, kw_only=True):
    """A command whose gates were read, ready to be decided and run.

    Attributes:
        action: What is decided about.
        variables: The caller's environment.
        seconds: It is ended after so long.
        terminal: Rows and columns; None for pipes.
        environment: What it has besides the workspace.
    """

    action: RunCommand
    variables: Mapping[str, str]
    seconds: float
    terminal: tuple[int, int] | None
    environment: CommandEnvironment


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
