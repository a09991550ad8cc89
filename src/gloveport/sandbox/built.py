"""One built sandbox, from its confinement through its one program to the death of its last process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import anyio
import pydantic_core
from pydantic import JsonValue, ValidationError

from gloveport.errors import GuestError, SandboxError
from gloveport.model import Program
from gloveport.sandbox import cgroup, frames
from gloveport.sandbox.base import Outcome, Plan, Sink, Walls
from gloveport.sandbox.watch import Watch, drain

_INFORMATION_BYTES = 4096
_GRACE_SECONDS = 2.0
_ESCAPED = 6  # most bytes of JSON that one byte of text becomes
_REPORT_BYTES = 512 * 1024  # most of a report besides its value


@dataclass(kw_only=True)
class Built:
    """A ``sandbox.base.Child``: bubblewrap's processes and the channel to the first process inside."""

    plan: Plan
    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    group: cgroup.Group | None
    uid: int | None
    shown: tuple[tuple[int, int], ...]
    """Device and inode of each bind's source, as found before anything was started."""

    inner: FileIO | None = None
    """Process descriptor of the pid namespace's init: readable when all of the namespace is dead."""

    _walls: Walls | None = None

    @property
    def walls(self) -> Walls:
        """See ``sandbox.base.Child``."""
        assert self._walls is not None  # noqa: S101 - a child is handed out confined, or not at all
        return self._walls

    async def confine(self, info: FileIO, landlock_abi: int) -> None:
        """Let the init process close its walls, read what is in force, and put it in its cgroup.

        Raises:
            SandboxError: A wall is missing.
            GuestError, OSError: It died on the way.
        """
        setup = {
            "landlock": self.plan.landlock,
            "rlimits": dict(self.plan.rlimits),
            "mounts": [bind.target for bind in self.plan.binds],
        }
        await frames.send(self.channel, setup)
        answer = await frames.receive(self.channel)
        if answer is None:
            raise GuestError("its first process died")
        message, pid = answer
        self._walls = _checked(message.get("ready"), landlock_abi)
        if self._walls.mounts != self.shown:  # bubblewrap follows links, and somebody may have moved one in just now
            raise SandboxError(
                "what is mounted in the sandbox is not what was named",
                hint="see who can change the mounts' directories",
            )
        self.inner = _open_child(json.loads(info.read(_INFORMATION_BYTES) or b"{}").get("child-pid"), self.process.pid)
        if self.group is not None:
            self.group.attach(pid)

    async def run(self, program: Program, *, value_bytes: int, stdout: Sink, stderr: Sink) -> Outcome:
        """See ``sandbox.base.Child``."""
        assert self.inner is not None  # noqa: S101 - a child is handed out confined, or not at all
        watch = Watch(limits=self.plan.limits, group=self.group, inner=self.inner.fileno())
        report: list[JsonValue] = []
        with contextlib.ExitStack() as stack:
            try:
                streams = await self._hand_over(program, value_bytes, stack)
            except OSError as error:
                raise SandboxError(f"the sandbox died before its program came, or took nothing: {error}") from error
            async with anyio.create_task_group() as tasks:
                for stream, sink in zip(streams, (stdout, stderr), strict=True):
                    tasks.start_soon(drain, stream, sink, watch)
                tasks.start_soon(self._read_report, report, value_bytes)
                async with anyio.create_task_group() as watching:
                    watching.start_soon(watch.keep)
                    await anyio.wait_readable(self.inner)
                    watching.cancel_scope.cancel()
                # Nobody is left to write; what is still to be read stands in the kernel's buffers. But a stream need
                # not end: a descriptor that was sent over a socket and never received outlives its sender.
                tasks.cancel_scope.deadline = anyio.current_time() + _GRACE_SECONDS
        counters = watch.finish()
        return Outcome(
            exit_code=await self._exit_code() if watch.broken is None else None,
            killed_by=watch.broken,
            report=report[0] if report else None,
            wall_seconds=time.monotonic() - watch.started,
            cpu_seconds=counters.cpu_seconds if counters else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            refused_forks=counters.refused_forks if counters else None,
        )

    async def _hand_over(self, program: Program, value_bytes: int, stack: contextlib.ExitStack) -> list[FileIO]:
        """Send the program and the writing ends of its streams; return the reading ends."""
        pipes = [pipe(stack), pipe(stack)]
        if self.uid is not None:
            for _, end in pipes:
                os.fchown(end.fileno(), self.uid, self.uid)  # or the program could not open its own /dev/stdout
        job = program.model_dump(include={"name", "source", "argv", "text", "descriptor", "report"})
        ends = tuple(end.fileno() for _, end in pipes)
        await frames.send(self.channel, {"program": {**job, "value_bytes": value_bytes}}, ends)
        for end in (end for _, end in pipes):
            end.close()  # or the streams would never end
        return [stream for stream, _ in pipes]

    async def _read_report(self, report: list[JsonValue], value_bytes: int) -> None:
        """The guest's word, if it gives one that has a shape and is no larger than the guest was told."""
        try:
            answer = await frames.receive(self.channel, max_bytes=_ESCAPED * value_bytes + _REPORT_BYTES)
        except GuestError:
            self.channel.shutdown(socket.SHUT_RD)  # whoever goes on writing fails at once, not at the wall-clock limit
            return
        if answer is not None:
            report.append(_bounded(answer[0].get("report"), value_bytes))

    async def _exit_code(self) -> int | None:
        """What bubblewrap passes on: the program's exit code, or 128 + the signal that ended it."""
        await _ended(self.process)
        code = self.process.returncode
        return code if code >= 0 else None

    async def end(self) -> None:
        """Kill all that is left and wait until nothing is. May be called again."""
        if self.process.returncode is None:  # once it is reaped the number may be anybody's
            os.killpg(self.process.pid, signal.SIGKILL)  # also a bubblewrap that has not built its namespaces yet
        if self.inner is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.inner.fileno(), signal.SIGKILL)
            await anyio.wait_readable(self.inner)
            with contextlib.suppress(ChildProcessError):  # ours only where we are whom orphans are given to
                os.waitid(os.P_PIDFD, self.inner.fileno(), os.WEXITED | os.WNOHANG)  # noqa: ASYNC222 - does not wait
            self.inner.close()
            self.inner = None
        await _ended(self.process)


async def _ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a child of ours and reap it."""
    if process.returncode is None:
        with FileIO(os.pidfd_open(process.pid)) as descriptor:
            await anyio.wait_readable(descriptor)
        process.wait()


def _open_child(pid: object, parent: int) -> FileIO:
    """A process descriptor of the sandbox's init, whose number bubblewrap told.

    Raises:
        GuestError: There is no such child: it has died, and its number may belong to somebody else by now.
    """
    if not isinstance(pid, int):
        raise GuestError("bubblewrap told no process id")
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(FileIO(os.pidfd_open(pid)))
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError as error:
            raise GuestError("it died while it was built") from error
        if int(status.rpartition(")")[2].split()[1]) != parent:
            raise GuestError("it died while it was built")
        stack.pop_all()
    return descriptor


def _checked(ready: JsonValue, landlock_abi: int) -> Walls:
    """Refuse a sandbox whose first process does not find every inner wall in force.

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
    return walls


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
