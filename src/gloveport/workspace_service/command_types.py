"""Types for running a command: the prepared command, its environment, and the handler of its input and output."""

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
"""Gives a sandbox that protects these paths. Raises SandboxError, WorkspaceError."""


class CommandEnvironment(Struct, frozen=True, kw_only=True):
    """What commands have besides the workspace: packages and programs of an environment, or none.

    Attributes:
        name: The operator's name of the environment; None where there is none.
        variables: Variables that tell commands of it.
    """

    name: str | None
    plan: Plan
    take: Take
    variables: Mapping[str, str]


class PreparedCommand(Struct, frozen=True, kw_only=True):
    """A command whose gates are known, ready to be decided on and run.

    Attributes:
        action: What the guard decides on.
        variables: The caller's environment.
        terminal: Rows and columns; None for pipes.
        environment: What it has besides the workspace and the system.
    """

    action: RunCommand
    variables: Mapping[str, str]
    seconds: float
    terminal: tuple[int, int] | None
    environment: CommandEnvironment


class Attachment(Protocol):
    """Moves the input and output of a program while it runs.

    Attributes:
        warnings: Receives what a person should look at when the program has ended.
    """

    warnings: list[str]

    def begin(self, console: Console) -> None:
        """Called when the program has begun."""

    async def finish(self) -> None:
        """Called when the program has ended: return soon, when all its output is passed on."""
