"""A session in a confined sandbox: asks its supervisor for one call after the other, and collects output in between."""

import asyncio
import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from io import FileIO

import anyio
from msgspec import Struct

from gloveport.ascii_json import encode_json
from gloveport.event_loop import Selector
from gloveport.model import Limits
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Outcome, Sink
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.cpu_throttle import CpuThrottle
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.call_watch import CallWatch
from gloveport.sandbox.run.guest_report import bound_value, exit_code_in, report_bytes
from gloveport.sandbox.run.supervisor import LOOK_SECONDS, Supervisor

_IDLE_LOOK_SECONDS = 1.0
_TAKE_SECONDS = 10.0


class ConfinedSession(Struct, kw_only=True):
    """A ``sandbox.base.ChildSession``. The sandbox's owner closes its descriptors.

    Attributes:
        channel: To the supervisor inside.
        direct: Directly to its Python interpreter, past the supervisor. Messages arrive whole or not at all.
        can_call_directly: Whether that interpreter waits for the next call: it is new, or has just saved its state, and
            has no branches.
        events: Selector of its ready descriptors; the other four are registered already.
        inner: Process descriptor of the init of its pid namespace.
        over: Readable when all of it has ended.
        out: Descriptor of ``model.OUT``.
    """

    limits: Limits
    group: cgroup.Cgroup | None
    channel: socket.socket
    direct: socket.socket
    can_call_directly: bool
    events: Selector
    stdout: FileIO
    stderr: FileIO
    inner: FileIO
    over: FileIO | socket.socket
    out: int
    kernel_memory: KernelMemory
    _throttle: CpuThrottle | None = None
    _is_branched: bool = False
    _ignored: int = 0
    """Number of the last call, if its interpreter has answered directly."""

    _calls: int = 0
    """How many there were."""

    _current: CallWatch | None = None
    """Watch of the running or last call."""

    _idle: Supervisor | None = None
    """Supervises the time between two calls."""

    _paused: "asyncio.Future[None] | None" = None
    """``_idle`` waits for this during a call."""

    def __post_init__(self) -> None:
        self._throttle = None if self.group is None else CpuThrottle(group=self.group, limits=self.limits)

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
        """See ``sandbox.base.ChildSession``."""
        self._calls += 1
        clock = clock or Clock()
        clock.restart()
        before = self.group.counters() if self.group else None
        watch = self._current = self._watch(clock, wall_seconds, before)
        request = {**message, "call": self._calls}
        watch.is_direct = self._ask_directly(request)
        is_asked = watch.is_direct or await self._ask(request)
        supervisor = self._supervisor(watch, stdout, stderr, value_bytes=value_bytes)  # the guest works meanwhile
        cancellation = None
        try:
            if is_asked:
                await supervisor.run()
        except OSError:  # it has died
            pass
        except anyio.get_cancelled_exc_class() as error:
            cancellation = error
            watch.stop()
            with anyio.CancelScope(shield=True), contextlib.suppress(OSError):
                await supervisor.run()
        watch.is_answered = True
        answer = supervisor.answer if supervisor.ended_by_report else None
        if answer is not None and answer.get("call") != self._calls:  # an unrequested answer
            answer = None
        if answer is None:
            watch.end_all()
        self._ignored = self._calls if supervisor.has_direct else 0
        self.can_call_directly = answer is not None and _has_kept_python(message, answer) and not self._is_branched
        on_answer(answer)  # before a cancellation is raised: its caller gets no result
        if cancellation is not None:
            raise cancellation
        report = bound_value(answer.pop("report", None) if answer else None, value_bytes)
        counters = self.group.counters() if self.group else None
        if counters and before and counters.oom_kills > before.oom_kills:  # the interpreter, and its call is undone
            watch.broken = watch.broken or "memory_bytes"
        return Outcome(
            is_out_full=os.fstatvfs(self.out).f_bavail == 0,
            exit_code=None if watch.broken else exit_code_in(report),
            killed_by=watch.broken,
            report=report,
            wall_seconds=clock.seconds,
            cpu_seconds=counters.cpu_seconds - before.cpu_seconds if counters and before else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            refused_forks=counters.refused_forks - before.refused_forks if counters and before else None,
            session=answer,
        )

    def interrupt(self) -> None:
        """See ``sandbox.base.ChildSession``."""
        if self._current is not None:
            self._current.stop()

    async def idle(self, stdout: Sink, stderr: Sink, seconds: float) -> bool:
        """See ``sandbox.base.ChildSession``."""
        watch = self._watch(Clock(), math.inf, self.group.counters() if self.group else None)
        supervisor = self._idle = self._supervisor(watch, stdout, stderr, look_seconds=_IDLE_LOOK_SECONDS)
        supervisor.leaves = time.monotonic() + seconds
        try:
            await supervisor.run()
        finally:
            self._idle = self._paused = None
        if not supervisor.is_left:  # the session has died, or sent something unrequested
            watch.end_all()
        return supervisor.is_left

    def end_idle(self) -> None:
        """See ``sandbox.base.ChildSession``."""
        if self._idle is not None:
            self._idle.leave()

    def pause_idle(self) -> bool:
        """See ``sandbox.base.ChildSession``."""
        if self._idle is None or (paused := self.events.replace_waiter()) is None:
            return False
        self._paused = paused
        self._idle.leave()
        return True

    def resume_idle(self) -> None:
        """See ``sandbox.base.ChildSession``."""
        if self._paused is not None and not self._paused.done():
            self._paused.set_result(None)

    def _watch(self, clock: Clock, wall_seconds: float, before: cgroup.Counters | None) -> CallWatch:
        return CallWatch(
            limits=self.limits,
            wall_seconds=wall_seconds,
            clock=clock,
            group=self.group,
            inner=self.inner.fileno(),
            kernel_memory=self.kernel_memory,
            spent=before.cpu_seconds if before else 0.0,
            oom_kills=before.oom_kills if before else 0,
            channel=self.channel,
            number=self._calls,
            throttle=self._throttle,
        )

    def _supervisor(
        self,
        watch: CallWatch,
        stdout: Sink,
        stderr: Sink,
        *,
        value_bytes: int = 0,
        look_seconds: float = LOOK_SECONDS,
    ) -> Supervisor:
        supervisor = Supervisor(
            watch=watch,
            channel=self.channel,
            report_bytes=report_bytes(value_bytes),
            over=self.over,
            ends_with_report=True,
            events=self.events,
            look_seconds=look_seconds,
            direct=self.direct,
            awaits=watch.awaits,
            ignored=self._ignored,
        )
        supervisor.collect(self.stdout, stdout)
        supervisor.collect(self.stderr, stderr)
        return supervisor

    def _ask_directly(self, message: Mapping[str, JsonValue]) -> bool:
        """Ask the interpreter directly for a call; tell whether that was possible."""
        can, self.can_call_directly = self.can_call_directly, False
        self._is_branched = self._is_branched or message["do"] == "branch"
        if not can or (message["do"], message["language"]) != ("run", "python"):
            return False
        if self.direct.fileno() not in self.events.get_map():  # a program has closed it: it is not read any more
            return False
        body = encode_json(message).encode("ascii")
        try:
            if len(body) > frames.DIRECT_BYTES or self.direct.send(body) != len(body):
                return False
        except OSError:  # its buffer is full, or the interpreter is dead
            return False
        return True

    async def _ask(self, message: Mapping[str, JsonValue]) -> bool:
        """Ask for a call; False if the session has died, or a program has stopped it. It is sent whole even on
        cancellation.
        """
        rest = memoryview(frames.encode(message))
        try:
            with contextlib.suppress(BlockingIOError):
                rest = rest[self.channel.send(rest) :]
            if not rest:
                return True
            with anyio.move_on_after(_TAKE_SECONDS, shield=True) as sending:
                await frames.send_bytes(self.channel, rest)
        except OSError:
            return False
        return not sending.cancelled_caught


def _has_kept_python(message: Mapping[str, JsonValue], answer: Mapping[str, JsonValue]) -> bool:
    """Whether this was a Python call whose resulting state the interpreter still has."""
    return (message["do"], message["language"], answer.get("state", "kept")) == ("run", "python", "kept")
