"""The interface of an isolation backend: a sandbox from a plan, one run in it, and the outcome."""

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from msgspec import Struct

from gloveport.model import LimitName, Program, Value
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.connectors import Connectors
from gloveport.sandbox.console import Console
from gloveport.sandbox.plan import Plan


class Outcome(Struct, frozen=True, kw_only=True):
    """What a backend saw of one run. ``report``, and an exit code that came with it, are the guest's word."""

    exit_code: int | None
    """Exit code of the sandbox: 128 + signal number when the program died by one. None when it was killed by us."""

    signal: int | None = None
    """The signal that the program died by, where that is known."""

    left_behind: int = 0
    """About how many processes the program has left, which were ended; 0 where nobody knows."""

    killed_by: LimitName | None
    """The limit for which the whole sandbox was killed."""

    report: JsonValue
    wall_seconds: float
    cpu_seconds: float | None
    peak_memory_bytes: int | None
    refused_forks: int | None
    """How often the kernel refused a new process for the limit's sake; None where no cgroup counts it."""

    is_out_full: bool = False
    """Whether there is no room left in ``OUT``."""

    session: JsonValue = None
    """Of a call of a session: all that its supervisor answered. None where it gave no answer, and is gone."""


class Sink(Protocol):
    """Where the bytes of one stream of a program go, as they come."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def full(self) -> bool:
        """True when the stream's byte budget is spent and the run must end."""


class IsolationReport(Value):
    """What the first process of a sandbox finds in force, as its kernel tells it, before any program is there."""

    mounts: tuple[tuple[int, int], ...] = ()
    """Device and inode of what lies at each target of the plan's binds. What a fork server forks tells of none: it has
    those of the fork server, which has told them.
    """

    landlock: int
    """Landlock ABI; 0 where there is none."""

    seccomp: bool
    no_new_privs: bool
    no_capabilities: bool


class ExitStatus(NamedTuple):
    """How a program has ended, as far as its sandbox knows."""

    code: int | None
    """Its exit code, or the negative signal that ended it; None if nobody knows."""

    left_behind: int = 0
    """About how many processes it has left; 0 where nobody knows."""


class Directories(NamedTuple):
    """Descriptors of directories of a sandbox: they lead there also when all of its processes are dead."""

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
        """What is in force in it."""

    @property
    def doors(self) -> tuple[socket.socket, ...]:
        """Sockets that listen at the plan's ``doors``, in that order. They don't block, and close with the child."""

    @property
    def connectors(self) -> Connectors:
        """Sockets of the plan's ``connectors``, which close with the child."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """What each of the plan's ``placeholders`` holds in it."""

    @property
    def uid(self) -> int | None:
        """The host's uid of its programs, where that is not ours."""

    @property
    def directories(self) -> Directories:
        """Where it is written into and read from by the host. They close with the child."""

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

        ``stdout``, ``stderr``: None where whoever has the console reads them, also after this has returned.

        ``clock``: what the wall-clock limit is counted by, from now; whoever has it may stop it for a while.
        ``on_console``: gets what one has in hand of the program when it has begun; without it, it reads nothing.

        A cancelled call leaves the killing to the context the child came from.
        """

    async def why_stale(self) -> str:
        """Why nothing more may run in it, though it lives; empty while something may."""

    async def begin_session(self, program: Program) -> "ChildSession":
        """Have a session's supervisor in it, instead of one program. Called once, by the engine.

        Raises:
            SandboxError: It has died.
        """


class ChildSession(Protocol):
    """A session in a sandbox: its calls, one at a time, and what comes between them."""

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

        ``on_answer``: gets what its supervisor says, None where it has died, also when this is cancelled.

        Where the outcome has no ``session``, the sandbox is dead.
        """

    def interrupt(self) -> None:
        """Interrupt the call that goes on, if one does, as a limit would."""

    async def idle(self, stdout: Sink, stderr: Sink, seconds: float) -> bool:
        """Between calls of a session: take what is written, for so long. False where it has died; may be cancelled."""

    def end_idle(self) -> None:
        """Let ``idle`` return soon: a call comes."""

    def pause_idle(self) -> bool:
        """The same for a call that comes now: ``idle`` does nothing until ``resume_idle``, and then returns.

        False where it is doing something, or nobody waits in it.
        """

    def resume_idle(self) -> None:
        """Let an ``idle`` that was paused return: the call is over."""


class Sandbox(Protocol):
    """An isolation backend."""

    def start(self, plan: Plan) -> AbstractAsyncContextManager[Child]:
        """Build the sandbox; on leaving, kill whatever is left of it and wait until nothing is.

        Raises:
            SandboxError: A wall of the plan can't be built on this host.
        """
