"""One confined sandbox, from its first process's isolation report to the end of its program or session."""

import contextlib
import math
import os
import select
import selectors
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from io import FileIO
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from gloveport.errors import GuestError, SandboxError
from gloveport.event_loop import Selector
from gloveport.late_libraries import secrets
from gloveport.late_module import late_module
from gloveport.model import Program
from gloveport.sandbox.base import Directories, ExitStatus, IsolationReport, Outcome, Sink
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.connectors import Connectors
from gloveport.sandbox.console import Console
from gloveport.sandbox.plan import PathProtection, Plan
from gloveport.sandbox.run.guest_report import bound_value, exit_code_in, report_bytes
from gloveport.sandbox.run.limit_watch import LimitWatch
from gloveport.sandbox.run.program_channel import ProgramChannel
from gloveport.sandbox.run.supervisor import Supervisor, watch_files

if TYPE_CHECKING:
    from gloveport.sandbox.run import confined_session
else:
    confined_session = late_module("gloveport.sandbox.run.confined_session")

_BOOT_SECONDS = 20.0
_PLACEHOLDER_BYTES = 24  # 32 characters


class Confined(Struct, kw_only=True, dict=True):
    """A ``sandbox.base.Child``, built cold or forked.

    Attributes:
        plan: The plan that it was built from; the pool may narrow its limits before the run.
        channel: To the process inside that will run the program, or start its interpreter.
        pid: The host's number of that process.
        inner: Process descriptor of the pid namespace's init: readable when all of the namespace is dead.
        directories: Its directories that the host reads from and writes to.
        rlimits: The limits that its process already has.
        over: Readable when the program has ended; its leftover processes are killed then.
        ends_with_report: Whether a report also ends the run. An honest program's process reports last; processes that
            continue are killed at that moment, and the answer need not wait for their death.
        exit_status: Tells how the program ended, when it is over.
        look_stale: Answers ``why_stale``; set by the source that hands it out.
        protections: The protected paths within its writable directories.
    """

    plan: Plan
    channel: ProgramChannel
    pid: int
    inner: FileIO
    walls: IsolationReport
    group: cgroup.Cgroup | None
    doors: tuple[socket.socket, ...]
    connectors: Connectors
    uid: int | None
    directories: Directories
    rlimits: Mapping[str, tuple[int, int]]
    over: FileIO | socket.socket
    ends_with_report: bool
    exit_status: Callable[[], Awaitable[ExitStatus]]
    look_stale: Callable[[], Awaitable[str]] | None = None
    protections: tuple[PathProtection, ...] = ()
    _spent: float = 0.0
    _direct: socket.socket | None = None
    """Socket directly to the Python interpreter of a session, past its supervisor."""

    _session_memory: KernelMemory | None = None
    _events: Selector | None = None

    @property
    def events(self) -> Selector:
        """Selector of its ready descriptors. It is made ahead of the run, and lives as long as the sandbox."""
        if self._events is None:
            channel = self.channel
            self._events = watch_files(channel.stdout, channel.stderr, channel.near, self.over)
        return self._events

    @cached_property
    def placeholders(self) -> Mapping[str, str]:
        """See ``sandbox.base.Child``. These texts are unique to this sandbox and can't be guessed."""
        return {name: f"gp_{secrets.token_urlsafe(_PLACEHOLDER_BYTES)}" for name in self.plan.placeholders}

    async def boot(self, program: Program) -> None:
        """Start the program's interpreter ahead of the program, and wait until it is ready.

        Raises:
            SandboxError: It does not start.
        """
        try:
            with anyio.fail_after(_BOOT_SECONDS):
                await self.channel.start_ahead(program, self._settings(program))
            if self.group is not None:
                self._spent = self.group.counters().cpu_seconds
        except (TimeoutError, GuestError, OSError) as error:
            name = program.argv[0]
            raise SandboxError(f"{name} did not start: {error}", hint="`gloveport doctor` tries it") from error
        self.ends_with_report = True

    async def why_stale(self) -> str:
        """See ``sandbox.base.Child``."""
        return "" if self.look_stale is None else await self.look_stale()

    def is_over(self) -> bool:
        """Whether any part of it has ended."""
        poll = select.poll()
        for sign in (self.inner, self.over):
            poll.register(sign, select.POLLIN)
        return bool(poll.poll(0))

    def narrow(self, plan: Plan) -> None:
        """Lower its limits to those of ``plan``, which has the same walls, before the run.

        Raises:
            OSError, SandboxError: A limit is too low for its present use, or its cgroup is gone.
        """
        if self.group is not None:
            self.group.lower_limits(self.plan.limits, plan.limits)
        self.plan = plan

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
        """See ``sandbox.base.Child``."""
        clock = clock or Clock()
        clock.restart()
        inner = self.inner.fileno()
        limits, channel = self.plan.limits, self.channel
        kernel_memory = KernelMemory(memory_bytes=limits.memory_bytes, group=self.group, pid=self.pid, inner=inner)
        watch = LimitWatch(
            limits=limits, clock=clock, group=self.group, inner=inner, kernel_memory=kernel_memory, spent=self._spent
        )
        try:
            if on_console is not None:
                on_console(await self._open_console(program, value_bytes))
            elif channel.stdin is None:
                await channel.hand_over(program, self._settings(program, value_bytes))
            elif channel.text is not None:
                channel.seal_text(program.text)
        except (GuestError, OSError) as error:
            raise SandboxError(f"the sandbox died before its program came, or took nothing: {error}") from error
        supervisor = Supervisor(
            watch=watch,
            channel=channel.near,
            report_bytes=report_bytes(value_bytes),
            over=self.over,
            ends_with_report=self.ends_with_report,
            events=self.events,
        )
        if channel.stdin is not None:
            supervisor.feed(channel.stdin, program.text if channel.text is None else "\n")
        self._collect(supervisor, stdout, stderr)
        with contextlib.closing(kernel_memory):
            await supervisor.run()
        report = bound_value(supervisor.report, value_bytes)
        counters = watch.finish()
        if watch.broken:
            status = ExitStatus(code=None)
        elif supervisor.ended_by_report:
            status = ExitStatus(code=exit_code_in(report))
        else:
            status = await self.exit_status()
        exit_code = status.code
        died_by = -exit_code if exit_code is not None and exit_code < 0 else None
        return Outcome(
            is_out_full=os.fstatvfs(self.directories.out).f_bavail == 0,
            exit_code=exit_code if died_by is None else 128 + died_by,
            signal=died_by,
            left_behind=status.left_behind,
            killed_by=watch.broken,
            report=report,
            wall_seconds=clock.seconds,
            cpu_seconds=counters.cpu_seconds - self._spent if counters else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            refused_forks=counters.refused_forks if counters else None,
        )

    def _collect(self, supervisor: Supervisor, stdout: Sink | None, stderr: Sink | None) -> None:
        for stream, terminal, sink in (
            (self.channel.stdout, self.channel.terminal, stdout),
            (self.channel.stderr, None, stderr),
        ):
            if sink is None or terminal is not None:
                self.events.unregister(stream.fileno())
            if sink is not None and terminal is not None:
                self.events.register(terminal.fileno(), selectors.EVENT_READ)
            if sink is not None:
                supervisor.collect(terminal or stream, sink)
        if self.channel.notes is not None:
            supervisor.note(self.channel.notes)

    async def prepare_session(self, program: Program) -> None:
        """Start a session's supervisor in it, which waits. Raises SandboxError if it has died."""
        try:
            self._direct, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                await self.channel.hand_over(program, self._settings(program), {0: theirs})
            self._direct.setblocking(False)  # noqa: FBT003 - the socket's own interface
            self.events.register(self._direct.fileno(), selectors.EVENT_READ)
        except (GuestError, OSError) as error:
            raise SandboxError(f"the sandbox died before its session began: {error}") from error

    async def begin_session(self, program: Program) -> "confined_session.ConfinedSession":
        """See ``sandbox.base.Child``."""
        if self._direct is None:
            await self.prepare_session(program)
        assert self._direct is not None  # noqa: S101 - it is prepared
        limits, inner = self.plan.limits, self.inner.fileno()
        kernel_memory = KernelMemory(memory_bytes=limits.memory_bytes, group=self.group, pid=self.pid, inner=inner)
        self._session_memory = kernel_memory
        return confined_session.ConfinedSession(
            limits=limits,
            group=self.group,
            channel=self.channel.near,
            direct=self._direct,
            events=self.events,
            can_call_directly=program.session is not None and program.session.first == "python",
            stdout=self.channel.stdout,
            stderr=self.channel.stderr,
            inner=self.inner,
            over=self.over,
            out=self.directories.out,
            kernel_memory=kernel_memory,
        )

    async def wait_dead(self) -> None:
        """See ``sandbox.base.Child``."""
        if self.inner.closed:  # closed by its builder, once it was dead
            return
        if self.group is not None:
            self.group.lift_quota()
        self.end()
        with FileIO(os.dup(self.inner.fileno())) as inner:  # its builder waits for the original, and closes it
            await anyio.wait_readable(inner)

    def end(self) -> None:
        """Kill all of it at once. Its builder waits until it is dead."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.inner.fileno(), signal.SIGKILL)

    def close(self) -> None:
        """Close the descriptors that it opened itself. Its builder ends the processes."""
        if self._session_memory is not None:
            self._session_memory.close()
        if self._events is not None:
            self._events.close()
        self.channel.close()
        if self._direct is not None:
            self._direct.close()

    async def _open_console(self, program: Program, value_bytes: int) -> Console:
        """Start a program that has a console.

        Raises:
            GuestError, OSError: It does not start.
        """
        process = FileIO(os.pidfd_open(self.pid))
        if self.is_over():  # if it still lives, the number was its own
            process.close()
            raise GuestError("its process is gone")
        return await self.channel.start_with_console(program, self._settings(program, value_bytes), process)

    def _settings(self, program: Program, value_bytes: int = 0) -> dict[str, object]:
        """Further settings of a program for the process inside."""
        rlimits = dict(self.plan.rlimits.items() - self.rlimits.items())
        if program.session and self.group is None:  # without a cgroup the time of one call is not counted
            seconds = math.ceil(self.plan.limits.cpu_seconds)
            rlimits["RLIMIT_CPU"] = (seconds, seconds + 1)
        env = self.placeholders if self.plan.placeholders else {}
        return {"value_bytes": value_bytes, "rlimits": rlimits, "env": env}
