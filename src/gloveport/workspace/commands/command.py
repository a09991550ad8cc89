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
"""Characters that wait until a command reads them."""

_LONGEST_CHARACTER: Final = 4


class CommandOutput(Struct, eq=False, kw_only=True):
    """A ``sandbox.base.Sink``: what a command has said on one stream, and how far its client has been told of it."""

    notify: Callable[[], None]
    retained: Retained
    told: int = 0

    @property
    def whole(self) -> int:
        """Offset of the end of what can be told: of a character that is there in part, its client is not told."""
        _, end = self.retained.last(0, _LONGEST_CHARACTER)
        return self.retained.total - len(end) + whole_characters(end)

    def write(self, data: bytes) -> None:
        """See ``sandbox.base.Sink``."""
        self.retained.write(data)
        self.notify()

    def full(self) -> bool:
        """See ``sandbox.base.Sink``: no command ends for what it says."""
        return False


class RefusedRequest(Struct, frozen=True, kw_only=True):
    """A request of a command that was refused, or failed: ``what`` it was and why, and the ``remedy``."""

    what: str
    remedy: str


def _nothing_refused() -> Sequence[RefusedRequest]:
    return ()


class Command(Job, eq=False, kw_only=True, weakref=True):
    """A command that runs, or has ended and is remembered.

    Attributes:
        line: What it is, as it was asked for.
        is_terminal: Whether its streams are one terminal.
        spool: Directory for the nameless files of what it says.
        outcome: What came of it, when it is over.
        warnings: What whoever waits for it should know.
        has_all_time: Whether it was given as much time as the operator lets any command have.
        can_ask_for_network: Whether the gate ``network`` was closed to it, and a person could open that.
        missing: Of one that found no program: what would show it that; empty where nobody knows.
        refused: Says which of its requests were refused until now.
        unresolved: Of one that has failed and said that a name was not found: those that the owner could grant.
        session: How the session stands in which it runs; None where it has a sandbox of its own.
        interrupt: Interrupts it there; None where ``console`` does.
        outputs: What it has said on each stream.
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
    refused: Callable[[], Sequence[RefusedRequest]] = _nothing_refused
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
        """How it stands."""
        if not self.is_over:
            return "running"
        if self.outcome is None:
            return "terminated"
        if self.outcome.killed_by == "wall_seconds":
            return "timeout"
        return "exited" if self.signal_name is None else "terminated"

    @property
    def exit_code(self) -> int | None:
        """Its exit code; the negative signal where it has died by one; None while it runs."""
        if not self.is_over:
            return None
        if self.outcome is None or self.outcome.exit_code is None:
            return -int(signal.SIGKILL)
        return -self.outcome.signal if self.outcome.signal else self.outcome.exit_code

    @property
    def signal_name(self) -> str | None:
        """The signal that it has died by."""
        code = self.exit_code
        if code is None or code >= 0:
            return None
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"SIG{-code}"

    @property
    def elapsed(self) -> float:
        """Seconds for which it has run."""
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
        """Have it read this. Waits where it reads slowly.

        Raises:
            WorkspaceError: COMMAND_CLOSED; COMMAND_LIMIT_REACHED: it reads nothing of what waits for it already.
        """
        closed = WorkspaceError(
            "COMMAND_CLOSED", f"the command {self.id} reads nothing more", hint="read_output still tells what it said"
        )
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
