"""The registry of one server's commands: who may see which, how many may run, how long ended ones are kept."""

import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from gloveport.background_jobs import Jobs, Retention
from gloveport.sandbox.base import Outcome
from gloveport.task_group import open_task_group
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError

Execute: TypeAlias = Callable[[Command], Awaitable[Outcome]]
"""Runs a command to its end, and calls its ``begin`` when it has begun."""

MOST_ACTIVE: Final = 24
MOST_OF_OWNER: Final = 16
"""How many commands of one owner may run at once: room is left for other owners."""
_RETENTION: Final = Retention[Command](
    jobs=32,
    seconds=300.0,
    bytes=16 << 20,
    size=lambda command: sum(output.retained.kept_bytes for output in command.outputs.values()),
)
_ID_BYTES: Final = 18
_LOOK_SECONDS: Final = 5.0


class Commands(Jobs[Command]):
    """The commands of one server.

    Attributes:
        orphan_seconds: A command runs on for so long after its owner was last heard of.
        spool: Directory for the nameless files of commands' output.
    """

    def __init__(self, tasks: TaskGroup, orphan_seconds: float, spool: Path) -> None:
        super().__init__(tasks, _RETENTION)
        self.orphan_seconds = orphan_seconds
        self.spool = spool
        self._last_requests: dict[str, float] = {}

    async def begin(self, owner: str, execute: Execute, *, is_terminal: bool, line: str = "") -> Command:
        """Start a command, and wait until it has begun.

        Raises:
            WorkspaceError: COMMAND_LIMIT_REACHED.
            Exception: Any exception of ``execute`` before it has begun.
        """
        owners = [command.owner for command in self.active()]
        if owners.count(owner) >= MOST_OF_OWNER:
            raise WorkspaceError(
                "COMMAND_LIMIT_REACHED",
                f"{MOST_OF_OWNER} commands of yours are running",
                hint="wait until one has ended, or end one with kill_command",
                details={"max_active_commands": MOST_OF_OWNER},
            )
        if len(owners) >= MOST_ACTIVE:
            raise WorkspaceError(
                "COMMAND_LIMIT_REACHED",
                f"{MOST_ACTIVE} commands of several clients are running",
                hint="wait until one has ended",
                details={"max_active_commands": MOST_ACTIVE},
            )
        command = Command(id=_new_id(), owner=owner, line=line, is_terminal=is_terminal, spool=self.spool)

        async def work(_: Command) -> None:
            command.outcome = await execute(command)

        self.start(command, work)
        try:
            while not command.has_begun and not command.is_over:
                await command.wait_changed(_LOOK_SECONDS)
        except BaseException:  # its caller has gone, and nobody else knows of it
            command.scope.cancel()
            raise
        if not command.has_begun and command.failure is not None:
            self.drop(command)
            raise command.failure
        return command

    def get(self, command_id: str, owner: str) -> Command:
        """The command of this id.

        Raises:
            WorkspaceError: COMMAND_NOT_FOUND: this owner has none of this id, or no longer.
        """
        command = self.find(command_id, owner)
        if command is None:
            raise WorkspaceError(
                "COMMAND_NOT_FOUND",
                f"there is no command {command_id[:64]!a} of yours, or no longer",
                hint=f"what has ended is remembered for {_RETENTION.seconds:.0f} s, "
                f"and no more than {_RETENTION.jobs} of it",
            )
        return command

    def active_of(self, owner: str) -> list[Command]:
        """This owner's running commands."""
        return [command for command in self.active() if command.owner == owner]

    def see(self, owner: str) -> None:
        """Note that this owner has been heard of now."""
        self._last_requests[owner] = time.monotonic()

    async def feed(self, command: Command, text: str, *, until: float, then: Literal["keep", "close"] = "keep") -> None:
        """Write to a command's input. The part that it has not read by ``until``, by the monotonic clock, follows when
        it reads. ``then`` is whether its input ends after that, if it has no terminal.

        Raises:
            WorkspaceError: As ``Command.write``.
        """
        if not text:  # most calls have none, and then there is no reason to wait
            if then == "close" and command.console is not None:
                command.console.close_input()
            return
        done = anyio.Event()
        failures: list[WorkspaceError] = []

        async def write() -> None:
            try:
                await command.write(text)
            except WorkspaceError as error:
                failures.append(error)
            finally:
                if then == "close" and command.console is not None:
                    command.console.close_input()
                done.set()

        self._tasks.start_soon(write)
        with anyio.move_on_after(max(0.0, until - time.monotonic())):
            await done.wait()
        if failures:
            raise failures[0]

    async def kill(self, command: Command, number: int, seconds: float, kill_seconds: float) -> str | None:
        """Send a signal; if it still runs after so long, kill all of it. Returns the signals that were sent."""
        if command.is_over:
            return None
        sent = signal.Signals(number).name
        if command.has_begun and number != signal.SIGKILL:
            if command.console is not None:
                command.console.signal(number)
            elif command.interrupt is not None:
                command.interrupt()
            await command.wait_over(seconds)
        if not command.is_over:
            command.scope.cancel()
            sent = sent if number == signal.SIGKILL else f"{sent}, SIGKILL"
            await command.wait_over(kill_seconds)
        return sent

    async def _watch(self) -> None:
        """End the commands of owners that have gone."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            late = time.monotonic() - self.orphan_seconds
            active = self.active()
            for command in active:
                if max(self._last_requests.get(command.owner, 0.0), command.began) < late:
                    command.scope.cancel()
            owners = {command.owner for command in active}
            self._last_requests = {owner: moment for owner, moment in self._last_requests.items() if owner in owners}


def _new_id() -> str:
    """A new id, without a dash: people write it on command lines, where a dash begins an option."""
    return secrets.token_urlsafe(_ID_BYTES).replace("-", "_")


@contextlib.asynccontextmanager
async def open_commands(orphan_seconds: float, spool: Path) -> AsyncIterator[Commands]:
    """Open the registry of commands. On leaving, all are ended."""
    async with open_task_group() as tasks:
        commands = Commands(tasks, orphan_seconds, spool)
        tasks.start_soon(commands._watch)  # noqa: SLF001 - its own
        yield commands
