"""The interface of an isolation backend: a sandbox from a plan, one run in it, and the outcome."""

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from io import FileIO
from typing import NamedTuple, Protocol

from msgspec import Struct

from gloveport.model import LimitName, Program, Value
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.connectors import Connectors
from gloveport.sandbox.console import Console
from gloveport.sandbox.plan import Plan


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of one run, as the backend saw it. ``report``, and an exit code in it, are the guest's claims."""

    exit_code: int | None
    """Exit code of the sandbox: 128 + signal number if a signal killed the program. None if we killed it."""

    signal: int | None = None
    """The signal that killed the program, if known."""

    left_behind: int = 0
    """Roughly how many processes the program left behind, which were killed; 0 if unknown."""

    killed_by: LimitName | None
    """The limit for which the whole sandbox was killed."""

    report: JsonValue
    wall_seconds: float
    cpu_seconds: float | None
    peak_memory_bytes: int | None
    refused_forks: int | None
    """How often the kernel refused a new process because of the limit; None if no cgroup counts it."""

    is_out_full: bool = False
    """Whether there is no room left in ``OUT``."""

    session: JsonValue = None
    """In a call of a session: the supervisor's whole answer. None if it gave none, and is gone."""


class Sink(Protocol):
    """Receives the bytes of one stream of a program, as they come."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def full(self) -> bool:
        """True when the stream's byte budget is spent and the run must end."""


class IsolationReport(Value):
    """The isolation in force in a sandbox: its first process reports it from the kernel, before any program is
    there.
    """

    mounts: tuple[tuple[int, int], ...] = ()
    """Device and inode at each target of the plan's binds. Forked sandboxes report none: they have the mounts that the
    fork server has reported.
    """

    landlock: int
    """Landlock ABI; 0 if there is none."""

    seccomp: bool
    no_new_privs: bool
    no_capabilities: bool


class ExitStatus(NamedTuple):
    """How a program ended, as far as its sandbox knows."""

    code: int | None
    """Its exit code, or the negative signal that ended it; None if unknown."""

    left_behind: int = 0
    """Roughly how many processes it left behind; 0 if unknown."""


class Directories(NamedTuple):
    """Descriptors of a sandbox's directories: they stay valid when all of its processes are dead."""

    out: int
    """``model.OUT``."""

    scratch: int
    """``model.SCRATCH``."""

    private: int
    """``model.PRIVATE``."""


class Child(Protocol):
    """A sandbox that is built, confined and waits for its one program."""

    @property
    def walls(self) -> IsolationReport:
        """The isolation in force in it."""

    @property
    def inner(self) -> FileIO:
        """Process descriptor of the first process of its pid namespace. It closes with the child."""

    @property
    def doors(self) -> tuple[socket.socket, ...]:
        """Sockets that listen at the plan's ``doors``, in that order. They don't block, and close with the child."""

    @property
    def connectors(self) -> Connectors:
        """Sockets of the plan's ``connectors``, which close with the child."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The value of each of the plan's ``placeholders`` in it."""

    @property
    def uid(self) -> int | None:
        """The host's uid of its programs, if not ours."""

    @property
    def directories(self) -> Directories:
        """The directories that the host writes to and reads from. They close with the child."""

    async def wait_dead(self) -> None:
        """Kill what is left of it, and return when all of its processes are dead."""

    async def run(
        self,
        program: Program,
        *,
        value_bytes: int,
        stdout: Sink | None,
        stderr: Sink | None,
        clock: Clock | None = None,
        on_console: Callable[[Console], None] | None = None,
    ) -> Outcome:
        """Run the program to its end, or to the limit it hits. Called once, by the engine.

        ``stdout``, ``stderr``: None if the owner of the console reads them, even after this has returned.

        ``clock``: counts the wall-clock limit, from now; its other holders may pause it. ``on_console``: gets the
        program's console when it has begun; without it, the program has an empty input.

        A cancelled call leaves the killing to the context the child came from.
        """

    async def why_stale(self) -> str:
        """Why nothing more may run in it although it lives; empty if more may run."""

    async def begin_session(self, program: Program) -> "ChildSession":
        """Start a session's supervisor in it, instead of one program. Called once, by the engine.

        Raises:
            SandboxError: It has died.
        """


class ChildSession(Protocol):
    """A session in a sandbox: its calls, one at a time, and its output between them."""

    async def call(
        self,
        message: Mapping[str, JsonValue],
        *,
        wall_seconds: float,
        value_bytes: int,
        stdout: Sink,
        stderr: Sink,
        clock: Clock | None = None,
        on_answer: Callable[[Mapping[str, JsonValue] | None], None],
    ) -> Outcome:
        """One call of a session. A limit, or cancelling this, interrupts it, then kills its interpreter alone.

        ``on_answer``: gets the supervisor's answer, None if the supervisor has died; also called on cancellation. If
        the outcome has no ``session``, the sandbox is dead.
        """

    def interrupt(self) -> None:
        """Interrupt the running call, if there is one, as a limit would."""

    async def idle(self, stdout: Sink, stderr: Sink, seconds: float) -> bool:
        """Between calls of a session: collect output, for so long. False if the session has died; may be cancelled."""

    def end_idle(self) -> None:
        """Make ``idle`` return soon, for a call."""

    def pause_idle(self) -> bool:
        """The same, at once: ``idle`` does nothing until ``resume_idle``, and then returns.

        False if it is busy, or no task waits in it.
        """

    def resume_idle(self) -> None:
        """Let a paused ``idle`` return: the call is over."""


class Sandbox(Protocol):
    """An isolation backend."""

    def start(self, plan: Plan) -> AbstractAsyncContextManager[Child]:
        """Build the sandbox; on leaving, kill all that is left of it, and wait until it is dead.

        Raises:
            SandboxError: A wall of the plan can't be built on this host.
        """
