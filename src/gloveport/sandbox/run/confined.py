"""One confined sandbox, from its first process's word on what is in force to the end of its program or session."""

import contextlib
import fcntl
import math
import operator
import os
import select
import selectors
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from io import FileIO
from typing import TYPE_CHECKING, Self

import anyio
from msgspec import Struct

from gloveport.errors import GuestError, SandboxError
from gloveport.event_loop import Selector
from gloveport.late_module import late_module
from gloveport.model import Program
from gloveport.sandbox.base import Directories, ExitStatus, IsolationReport, Outcome, Sink
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.connectors import Connectors
from gloveport.sandbox.console import Console, close
from gloveport.sandbox.plan import Kept, Plan
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.guest_report import bound_value, exit_code_in, report_bytes
from gloveport.sandbox.run.limit_watch import LimitWatch
from gloveport.sandbox.run.supervisor import Supervisor, watch_files

if TYPE_CHECKING:
    import secrets

    from gloveport.sandbox.run import confined_session
else:
    secrets = late_module("secrets")
    confined_session = late_module("gloveport.sandbox.run.confined_session")

_EVERY_SEAL = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_BOOT_SECONDS = 20.0
_READY = b"R"
_PLACEHOLDER_BYTES = 24  # 32 characters
# What the guest is told of a program.
_JOB = ("name", "source", "argv", "text", "descriptor", "report", "variables", "directory", "terminal", "foreground")
_get_job = operator.attrgetter(*_JOB)


class Streams(Struct, kw_only=True):
    """The pipes of a program's output; ``far`` are the ends that it writes to, for which ``uid`` is their owner."""

    stdout: FileIO
    stderr: FileIO
    far: tuple[FileIO, FileIO]

    @classmethod
    @contextlib.contextmanager
    def open(cls, uid: int | None) -> Iterator[Self]:
        """Open them.

        Args:
            uid: The host's uid of the program, where that is not ours: who does not own them can't open /dev/stdout.

        Raises:
            OSError: There are no more descriptors to be had.
        """
        with contextlib.ExitStack() as stack:
            (stdout, far_stdout), (stderr, far_stderr) = frames.open_pipe(stack), frames.open_pipe(stack)
            if uid is not None:
                for end in (far_stdout, far_stderr):
                    os.fchown(end.fileno(), uid, uid)
            yield cls(stdout=stdout, stderr=stderr, far=(far_stdout, far_stderr))


class Confined(Struct, kw_only=True, dict=True):
    """A ``sandbox.base.Child``, whoever built it.

    Attributes:
        plan: What it was built from; whoever hands it out may narrow its limits before the run.
        channel: Socket to the process inside that will run the program, or start its interpreter.
        pid: The host's number of that process.
        inner: Process descriptor of the pid namespace's init: readable when all of the namespace is dead.
        doors: See ``sandbox.base.Child``.
        connectors: See ``sandbox.base.Child``.
        uid: See ``sandbox.base.Child``.
        directories: Those of its directories that the host reads from and writes to.
        rlimits: Limits that its process has already.
        over: Readable when the program has ended; what it has left behind is killed then.
        ends_with_report: Whether a report ends the run as well. It is the last thing that an honest program's process
            does; what goes on after it is killed at that moment, and the answer need not wait until it is dead.
        exit_status: Tells how the program has ended, when it is over.
        look_stale: What ``why_stale`` asks; set by whoever hands it out.
        kept: What it can't write of what it may write otherwise.
    """

    plan: Plan
    channel: socket.socket
    pid: int
    inner: FileIO
    walls: IsolationReport
    group: cgroup.Cgroup | None
    streams: Streams
    doors: tuple[socket.socket, ...]
    connectors: Connectors
    uid: int | None
    directories: Directories
    rlimits: Mapping[str, tuple[int, int]]
    over: FileIO | socket.socket
    ends_with_report: bool
    exit_status: Callable[[], Awaitable[ExitStatus]]
    look_stale: Callable[[], Awaitable[str]] | None = None
    kept: tuple[Kept, ...] = ()
    _stdin: FileIO | None = None
    """Where an interpreter waits for its program."""

    _text: FileIO | None = None
    """Memory from which it reads its program, if not from there."""

    _notes: FileIO | None = None
    """Where it reports by itself."""

    _terminal: FileIO | None = None
    """Where the program has one."""

    _input: FileIO | None = None
    """What it reads, where that is a pipe which stays open."""

    _stops: FileIO | None = None
    """Where it is told that the program is stopped, where somebody wants to know."""

    _process: FileIO | None = None
    """Its process descriptor."""

    _spent: float = 0.0
    _direct: socket.socket | None = None
    """To the interpreter of Python of a session, past its supervisor, where that is in it."""

    _session_memory: KernelMemory | None = None
    _events: Selector | None = None

    @property
    def events(self) -> Selector:
        """What of it is ready. It is made ahead of the run where the sandbox is, and lasts as long."""
        if self._events is None:
            self._events = watch_files(self.streams.stdout, self.streams.stderr, self.channel, self.over)
        return self._events

    @cached_property
    def placeholders(self) -> Mapping[str, str]:
        """See ``sandbox.base.Child``. No other sandbox has these texts, and nobody can guess them."""
        return {name: f"gp_{secrets.token_urlsafe(_PLACEHOLDER_BYTES)}" for name in self.plan.placeholders}

    async def boot(self, program: Program) -> None:
        """Start the program's interpreter ahead of the program, and wait until it waits.

        Raises:
            SandboxError: It does not start.
        """
        try:
            with anyio.fail_after(_BOOT_SECONDS):
                await self._boot(program)
        except (TimeoutError, GuestError, OSError) as error:
            name = program.argv[0]
            raise SandboxError(f"{name} did not start: {error}", hint="`gloveport doctor` tries it") from error

    async def _boot(self, program: Program) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._stdin = FileIO(writing, "w")
        with FileIO(reading) as far:
            inputs = {0: far}
            if program.descriptor:
                self._text = FileIO(os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
                inputs[program.descriptor] = self._text
            await self._hand_over(program.model_copy(update={"argv": program.waiting, "text": ""}), 0, inputs)
        await anyio.wait_readable(self.streams.stdout)
        if self.streams.stdout.read(1) != _READY:
            raise GuestError("the interpreter did not say that it is ready")
        self.ends_with_report = True
        if self.group is not None:
            self._spent = self.group.counters().cpu_seconds

    async def why_stale(self) -> str:
        """See ``sandbox.base.Child``."""
        return "" if self.look_stale is None else await self.look_stale()

    def is_over(self) -> bool:
        """Whether it has ended, or some of it has."""
        poll = select.poll()
        for sign in (self.inner, self.over):
            poll.register(sign, select.POLLIN)
        return bool(poll.poll(0))

    def narrow(self, plan: Plan) -> None:
        """Make it a sandbox of ``plan``, which has the same walls and narrower limits, before the run.

        Raises:
            OSError, SandboxError: A limit can't be lowered so far any more, or its cgroup is gone.
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
        limits = self.plan.limits
        held = KernelMemory(memory_bytes=limits.memory_bytes, group=self.group, pid=self.pid, inner=inner)
        watch = LimitWatch(limits=limits, clock=clock, group=self.group, inner=inner, held=held, spent=self._spent)
        try:
            if on_console is not None:
                on_console(await self._begin(program, value_bytes))
            elif self._stdin is None:
                await self._hand_over(program, value_bytes, {})
            elif self._text is not None:
                _seal(self._text, program.text)
        except (GuestError, OSError) as error:
            raise SandboxError(f"the sandbox died before its program came, or took nothing: {error}") from error
        supervisor = Supervisor(
            watch=watch,
            channel=self.channel,
            report_bytes=report_bytes(value_bytes),
            over=self.over,
            ends_with_report=self.ends_with_report,
            events=self.events,
        )
        if self._stdin is not None:
            supervisor.feed(self._stdin, program.text if self._text is None else "\n")
        self._collect(supervisor, stdout, stderr)
        with contextlib.closing(held):
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
            (self.streams.stdout, self._terminal, stdout),
            (self.streams.stderr, None, stderr),
        ):
            if sink is None or terminal is not None:
                self.events.unregister(stream.fileno())
            if sink is not None and terminal is not None:
                self.events.register(terminal.fileno(), selectors.EVENT_READ)
            if sink is not None:
                supervisor.collect(terminal or stream, sink)
        if self._notes is not None:
            supervisor.note(self._notes)

    async def prepare_session(self, program: Program) -> None:
        """Have a session's supervisor in it, which waits.

        Raises:
            SandboxError: It has died.
        """
        try:
            self._direct, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                await self._hand_over(program, 0, {0: theirs})
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
        held = KernelMemory(memory_bytes=limits.memory_bytes, group=self.group, pid=self.pid, inner=inner)
        self._session_memory = held
        return confined_session.ConfinedSession(
            limits=limits,
            group=self.group,
            channel=self.channel,
            direct=self._direct,
            events=self.events,
            stdout=self.streams.stdout,
            stderr=self.streams.stderr,
            inner=self.inner,
            over=self.over,
            out=self.directories.out,
            held=held,
        )

    async def wait_dead(self) -> None:
        """See ``sandbox.base.Child``."""
        if self.inner.closed:  # by whoever has built it, when it was dead
            return
        if self.group is not None:
            self.group.lift_quota()
        self.end()
        with FileIO(os.dup(self.inner.fileno())) as inner:  # who has built it waits for the other one, and closes that
            await anyio.wait_readable(inner)

    def end(self) -> None:
        """Kill all of it at once. Who has built it waits until it is dead."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.inner.fileno(), signal.SIGKILL)

    def close(self) -> None:
        """Close the host's end of what it opened itself. The processes are another's to end."""
        if self._session_memory is not None:
            self._session_memory.close()
        if self._events is not None:
            self._events.close()
        for file in (self._stdin, self._text, self._notes, self._process, self._direct):
            if file is not None:
                file.close()
        for file in (self._terminal, self._input, self._stops):
            if file is not None:
                close(file)

    async def _begin(self, program: Program, value_bytes: int) -> Console:
        """Start a program that has a console.

        Raises:
            GuestError: Its process is gone.
        """
        self._process = FileIO(os.pidfd_open(self.pid))
        if self.is_over():  # if not, then nobody else had its number
            raise GuestError("its process is gone")
        if program.terminal:
            await self._hand_over(program, value_bytes, {})
            try:
                self._terminal = await frames.receive_descriptor(self.channel, "r+")
            except GuestError as error:
                raise GuestError("no terminal is to be had, perhaps on all of this host") from error
            os.set_blocking(self._terminal.fileno(), False)
            return await self._console(program, self._terminal, self._terminal)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._input = FileIO(writing, "w")
        with FileIO(reading) as far:
            await self._hand_over(program, value_bytes, {0: far})
        return await self._console(program, self._input, self.streams.stdout)

    async def _console(self, program: Program, input_: FileIO, output: FileIO) -> Console:
        assert self._process is not None  # noqa: S101 - it has begun
        if program.foreground:
            self._stops = await frames.receive_descriptor(self.channel)
            os.set_blocking(self._stops.fileno(), False)
        return Console(
            input=input_,
            output=output,
            errors=self.streams.stderr,
            stops=self._stops,
            process=self._process,
            is_terminal=input_ is output,
        )

    async def _hand_over(
        self, program: Program, value_bytes: int, inputs: Mapping[int, FileIO | socket.socket]
    ) -> None:
        """Send the program, the far ends of its streams, and what else its interpreter finds under which number.

        The far ends are closed here, or the streams would never end.
        """
        job = dict(zip(_JOB, _get_job(program), strict=True))
        rlimits = dict(self.plan.rlimits.items() - self.rlimits.items())
        if program.session and self.group is None:  # nobody counts the time of one call
            seconds = math.ceil(self.plan.limits.cpu_seconds)
            rlimits["RLIMIT_CPU"] = (seconds, seconds + 1)
        job |= {"value_bytes": value_bytes, "rlimits": rlimits, "inputs": list(inputs)}
        job["env"] = self.placeholders if self.plan.placeholders else {}
        job["session"] = program.session.model_dump(mode="json") if program.session else None
        descriptors = tuple(end.fileno() for end in (*self.streams.far, *inputs.values()))
        await frames.send(self.channel, {"program": job}, descriptors)
        for end in self.streams.far:
            end.close()
        if program.report:  # the guest is still ours, so it may send a descriptor, and never again
            self._notes = await frames.receive_descriptor(self.channel)


def _seal(memory: FileIO, text: str) -> None:
    """Write a text to memory of ``memfd_create``, which nobody can change afterwards. It is read from its start.

    Raises:
        OSError: Somebody could still change it.
    """
    data, written = text.encode("utf-8", "surrogatepass"), 0
    while written < len(data):
        written += os.pwrite(memory.fileno(), data[written:], written)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _EVERY_SEAL)
