"""One command: its state, its output, and its input."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from gloveport.background_jobs import Job
from gloveport.model import SessionState, Stream
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.console import Console
from gloveport.workspace.commands.retained import Retained
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.line_reader import whole_characters

Status: TypeAlias = Literal["running", "exited", "timeout", "terminated"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")

_MOST_UNREAD: Final = 4 << 20
"""The most characters that wait for a command to read them."""

_LONGEST_CHARACTER: Final = 4


class CommandOutput(Struct, eq=False, kw_only=True):
    """A ``sandbox.base.Sink``: a command's output on one stream, and how far its client has read it."""

    notify: Callable[[], None]
    retained: Retained
    told_bytes: int = 0

    @property
    def whole(self) -> int:
        """Offset of the end of complete characters: a partial character is not sent yet."""
        _, end = self.retained.last(0, _LONGEST_CHARACTER)
        return self.retained.total - len(end) + whole_characters(end)

    def write(self, data: bytes) -> None:
        """See ``sandbox.base.Sink``."""
        self.retained.write(data)
        self.notify()

    def full(self) -> bool:
        """See ``sandbox.base.Sink``: no command ends because of its output."""
        return False


class RefusedRequest(Struct, frozen=True, kw_only=True):
    """A command's request that was refused, or failed: ``what`` and why, and the ``remedy``."""

    what: str
    remedy: str


class Command(Job, eq=False, kw_only=True, weakref=True):
    """A command that runs, or has ended and is remembered.

    Attributes:
        line: The command line, as requested.
        is_terminal: Whether its streams are one terminal.
        spool: Directory for the nameless files of its output.
        has_all_time: Whether its time limit is the operator's maximum.
        can_ask_for_network: Whether it ran without the network, and a person could permit that.
        missing: If it did not find a program: the remedy; empty if unknown.
        refused: Returns its refused requests so far.
        unresolved: If it failed to resolve a name: the hosts that the owner could grant.
        session: State of the session that it runs in; None if it has a sandbox of its own.
        interrupt: Interrupts it in its session; None if ``console`` does.
    """

    is_terminal: bool
    spool: Path
    line: str = ""
    console: Console | None = None
    outcome: Outcome | None = None
    warnings: list[str] = field(default_factory=list)
    has_all_time: bool = False
    can_ask_for_network: bool = False
    missing: str = ""
    refused: Callable[[], Sequence[RefusedRequest]] = tuple
    unresolved: Sequence[RefusedRequest] = ()
    session: SessionState | None = None
    interrupt: Callable[[], object] | None = None
    outputs: Mapping[Stream, CommandOutput] = {}
    _unread: int = 0

    def __post_init__(self) -> None:
        self.outputs = {
            stream: CommandOutput(notify=self.notify, retained=Retained(directory=self.spool)) for stream in STREAMS
        }

    @property
    def status(self) -> Status:
        """Its state."""
        if not self.is_over:
            return "running"
        if self.outcome is None:
            return "terminated"
        if self.outcome.killed_by == "wall_seconds":
            return "timeout"
        return "exited" if self.signal_name is None else "terminated"

    @property
    def exit_code(self) -> int | None:
        """Its exit code; the negative signal if one killed it; None while it runs."""
        if not self.is_over:
            return None
        if self.outcome is None or self.outcome.exit_code is None:
            return -int(signal.SIGKILL)
        return -self.outcome.signal if self.outcome.signal else self.outcome.exit_code

    @property
    def signal_name(self) -> str | None:
        """The signal that killed it."""
        code = self.exit_code
        if code is None or code >= 0:
            return None
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"SIG{-code}"

    @property
    def elapsed(self) -> float:
        """How many seconds it has run."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def has_begun(self) -> bool:
        """Whether it runs, or has run."""
        return self.console is not None or self.interrupt is not None

    def begin(self, console: Console) -> None:
        """It has begun, in a sandbox of its own."""
        self.console = console
        self.notify()

    def begin_in_session(self, session: SessionState, interrupt: Callable[[], object]) -> None:
        """It has begun, in the sandbox of a session."""
        self.session, self.interrupt = session, interrupt
        self.notify()

    async def write(self, text: str) -> None:
        """Write to its input. Waits if it reads slowly.

        Raises:
            WorkspaceError: COMMAND_CLOSED; COMMAND_LIMIT_REACHED: too much unread input waits already.
        """
        instead = "kill_command ends it, and takes signal='INT'; a command reads if it begins with tty or keep_stdin"
        hint = "read_output still tells what it said" if self.is_over else instead
        closed = WorkspaceError("COMMAND_CLOSED", f"the command {self.id} reads nothing more", hint=hint)
        if self.is_over or self.console is None:
            raise closed
        if self._unread and self._unread + len(text) > _MOST_UNREAD:
            raise WorkspaceError(
                "COMMAND_LIMIT_REACHED",
                f"the command {self.id} has not read what was written to it",
                hint="wait until it does",
            )
        self._unread += len(text)
        try:
            await self.console.write(text.encode("utf-8", "surrogatepass"))
        except BrokenPipeError as error:
            raise closed from error
        finally:
            self._unread -= len(text)
