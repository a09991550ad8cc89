"""One confined sandbox, from its first process's word on what is in force to the end of its one program."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import FileIO

import anyio
import pydantic_core
from pydantic import JsonValue, ValidationError

from gloveport.errors import GuestError, SandboxError
from gloveport.model import Program
from gloveport.sandbox import cgroup, frames
from gloveport.sandbox.base import Outcome, Plan, Sink, Walls
from gloveport.sandbox.watch import Watch, drain, drain_rest

_GRACE_SECONDS = 2.0
_ESCAPED = 6  # most bytes of JSON that one byte of text becomes
_REPORT_BYTES = 512 * 1024  # most of a report besides its value


@dataclass(kw_only=True)
class Streams:
    """The host's ends of a program's standard streams; ``stdin`` where an interpreter waits for its program."""

    stdout: FileIO
    stderr: FileIO
    stdin: FileIO | None


@dataclass(kw_only=True)
class Confined:
    """A ``sandbox.base.Child``, whoever built it.

    Attributes:
        plan: What it was built from; whoever hands it out may narrow its limits before the run.
        channel: Socket to the process inside that will run the program, or start its interpreter.
        inner: Process descriptor of the pid namespace's init: readable when all of the namespace is dead.
        uid: The host's uid of its processes, where that is not ours.
        over: Readable when the program has ended; what it has left behind is killed then.
        ends_with_report: Whether a report ends the run as well. It is the last thing that an honest program's process
            does; what goes on after it is killed at that moment, and the answer need not wait until it is dead.
        exit_code: Tells the program's exit code when it is over, 128 + the signal that ended it; None if nobody knows.
    """

    plan: Plan
    channel: socket.socket
    inner: FileIO
    walls: Walls
    group: cgroup.Group | None
    uid: int | None
    over: FileIO | socket.socket
    ends_with_report: bool
    exit_code: Callable[[], Awaitable[int | None]]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _streams: Streams | None = None
    _spent: float = 0.0

    async def boot(self, program: Program) -> None:
        """Start the program's interpreter ahead of the program, behind running programs, and wait until it waits.

        Raises:
            GuestError, OSError: It died on the way.
        """
        if self.group is not None:
            self.group.weigh(cgroup.BACKGROUND)
        ahead = program.model_copy(update={"argv": (*program.argv, "wait"), "text": ""})
        self._streams = await self._hand_over(ahead, 0, with_stdin=True)
        await anyio.wait_readable(self._streams.stdout)
        if self._streams.stdout.read(1) != _READY:
            raise GuestError("the interpreter did not say that it is ready")
        self.ends_with_report = True

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
            self.group.lower(self.plan.limits, plan.limits)
            if self._streams is not None:
                self.group.weigh(1)
                self._spent = self.group.counters().cpu_seconds
        self.plan = plan

    async def run(self, program: Program, *, value_bytes: int, stdout: Sink, stderr: Sink) -> Outcome:
        """See ``sandbox.base.Child``."""
        watch = Watch(limits=self.plan.limits, group=self.group, inner=self.inner.fileno(), spent=self._spent)
        try:
            streams = self._streams or await self._hand_over(program, value_bytes, with_stdin=False)
        except OSError as error:
            raise SandboxError(f"the sandbox died before its program came, or took nothing: {error}") from error
        sinks = ((streams.stdout, stdout), (streams.stderr, stderr))
        report: list[JsonValue] = []
        reported = False
        async with anyio.create_task_group() as tasks:
            if streams.stdin is not None:
                tasks.start_soon(_feed, streams.stdin, program.text)
            for stream, sink in sinks:
                tasks.start_soon(drain, stream, sink, watch)
            tasks.start_soon(self._end_when_over, watch, tasks.cancel_scope)
            await self._read_report(report, value_bytes)  # here and in no task: the answer waits for this
            reported = bool(report) and self.ends_with_report
            if reported:
                watch.end()
                tasks.cancel_scope.cancel()
        for stream, sink in sinks:
            drain_rest(stream, sink)
        counters = watch.finish()
        return Outcome(
            exit_code=None if watch.broken else _code_in(report) if reported else await self.exit_code(),
            killed_by=watch.broken,
            report=report[0] if report else None,
            wall_seconds=time.monotonic() - watch.started,
            cpu_seconds=counters.cpu_seconds - self._spent if counters else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            refused_forks=counters.refused_forks if counters else None,
        )

    def close(self) -> None:
        """Close the host's ends of everything. The processes are another's to end."""
        self._stack.close()

    async def _hand_over(self, program: Program, value_bytes: int, *, with_stdin: bool) -> Streams:
        """Send the program and the far ends of its streams."""
        with contextlib.ExitStack() as far:
            ends: list[FileIO] = []
            streams = Streams(stdout=self._pipe_from(far, ends), stderr=self._pipe_from(far, ends), stdin=None)
            if with_stdin:
                reading, writing = os.pipe()
                os.set_blocking(writing, False)
                streams.stdin = self._stack.enter_context(FileIO(writing, "w"))
                ends.append(far.enter_context(FileIO(reading)))
            if self.uid is not None:
                for end in ends:
                    os.fchown(end.fileno(), self.uid, self.uid)  # or the program could not open its own /dev/stdout
            job = program.model_dump(include={"name", "source", "argv", "text", "descriptor", "report"})
            job |= {"value_bytes": value_bytes, "rlimits": dict(self.plan.rlimits)}
            await frames.send(self.channel, {"program": job}, tuple(end.fileno() for end in ends))
        return streams

    def _pipe_from(self, far: contextlib.ExitStack, ends: list[FileIO]) -> FileIO:
        """The reading end of a pipe; ``far`` closes the writing one, or the stream would never end."""
        reading, writing = pipe(self._stack)
        ends.append(far.enter_context(writing))
        return reading

    async def _end_when_over(self, watch: Watch, tasks: anyio.CancelScope) -> None:
        """Watch the program; when it is over, kill what it has left behind, and give its streams a while to end.

        All that could write is dead or killed by then, and with the last of it the streams end. But a stream need not
        end: a descriptor that was sent over a socket and never received outlives its sender.
        """
        await watch.keep(self.over)
        watch.end()
        tasks.deadline = anyio.current_time() + _GRACE_SECONDS

    async def _read_report(self, report: list[JsonValue], value_bytes: int) -> None:
        """The guest's word, if it gives one that has a shape and is no larger than the guest was told."""
        try:
            answer = await frames.receive(self.channel, max_bytes=_ESCAPED * value_bytes + _REPORT_BYTES)
        except GuestError:
            self.channel.shutdown(socket.SHUT_RD)  # whoever goes on writing fails at once, not at the wall-clock limit
            return
        if answer is not None:
            report.append(_bounded(answer[0].get("report"), value_bytes))


_READY = b"R"


def checked(ready: JsonValue, *, landlock_abi: int, shown: tuple[tuple[int, int], ...]) -> Walls:
    """Refuse a sandbox whose first process does not find every inner wall in force, and each mount as it was named.

    Args:
        ready: What it said.
        landlock_abi: The least Landlock that is accepted.
        shown: Device and inode of each bind's source, as found before anything was started.

    Raises:
        SandboxError: Names the missing wall.
        GuestError: It did not say.
    """
    try:
        walls = Walls.model_validate(ready)
    except ValidationError as error:
        raise GuestError("its first process did not tell what is in force") from error
    for wall in ("seccomp", "no_new_privs", "no_capabilities"):
        if not getattr(walls, wall):
            raise SandboxError(f"inside the sandbox {wall} is not in force", hint="`gloveport doctor` tells why")
    if walls.landlock < landlock_abi:
        raise SandboxError(
            f"Landlock ABI {landlock_abi} is demanded, the kernel enforces {walls.landlock or 'none'}",
            hint="boot a kernel with CONFIG_SECURITY_LANDLOCK and `landlock` in its lsm= list, "
            "or lower sandbox.landlock_abi",
        )
    if walls.mounts != shown:  # bubblewrap follows links, and somebody may have moved one in just now
        raise SandboxError(
            "what is mounted in the sandbox is not what was named",
            hint="see who can change the mounts' directories",
        )
    return walls


def _code_in(report: list[JsonValue]) -> int | None:
    """The exit code that a report tells, as far as it can be one."""
    code = report[0].get("exit_code") if isinstance(report[0], dict) else None
    return code & 0xFF if isinstance(code, int) else 1


async def _feed(stdin: FileIO, text: str) -> None:
    """Write the program to the interpreter that waits for it, and close."""
    view = memoryview(text.encode())
    with stdin, contextlib.suppress(BrokenPipeError):
        while view:
            written = stdin.write(view)
            if written is None:
                await anyio.wait_writable(stdin)
            else:
                view = view[written:]


def _bounded(report: JsonValue, value_bytes: int) -> JsonValue:
    """``report`` with a value that can be written as JSON, and no larger than an honest guest's.

    The guest limits a text before it is quoted. A number beyond every float was read as infinity: it becomes null.
    """
    if not isinstance(report, dict):
        return report
    value = pydantic_core.to_json(report.get("value"), inf_nan_mode="null")
    if len(value) > 2 * value_bytes + 2:
        return {**report, "value": None, "value_truncated": True}
    return {**report, "value": pydantic_core.from_json(value)}


def pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """A pipe whose reading end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return (
        stack.enter_context(FileIO(reading)),
        stack.enter_context(FileIO(writing, "w")),
    )
