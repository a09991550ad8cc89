"""Ends a run that exceeds a limit which no kernel setting ends by itself, and moves its output to where it is kept."""

import contextlib
import signal
import socket
import time
from dataclasses import dataclass, field
from io import FileIO

import anyio
import anyio.lowlevel

from gloveport.errors import SandboxError
from gloveport.model import LimitName, Limits
from gloveport.sandbox import cgroup
from gloveport.sandbox.base import Sink

_LOOK_SECONDS = 0.05
_CHUNK_BYTES = 1 << 16
_SMALL_BYTES, _SMALL_READS, _GATHER_SECONDS = 4096, 200, 0.005


@dataclass(kw_only=True)
class Watch:
    """Watches one run.

    Attributes:
        inner: Process descriptor of the sandbox's init: killing it kills all of the sandbox.
        spent: Processor seconds that were spent before the program came.
        broken: The limit for which the sandbox was killed.
    """

    limits: Limits
    group: cgroup.Group | None
    inner: int
    spent: float = 0.0
    started: float = field(default_factory=time.monotonic)
    broken: LimitName | None = None
    _ended: bool = False

    async def keep(self, over: FileIO | socket.socket) -> None:
        """Look again and again for a limit that is broken, until ``over`` can be read."""
        while not self._ended:
            left = self.started + self.limits.wall_seconds - time.monotonic()
            with anyio.move_on_after(min(_LOOK_SECONDS, max(left, 0))):
                await anyio.wait_readable(over)
                return
            if time.monotonic() - self.started >= self.limits.wall_seconds:
                self.kill("wall_seconds")
            elif self.group is not None:
                try:
                    self._check(self.group.counters())
                except SandboxError:  # somebody removed the group, and the limits with it; ``finish`` says so
                    self.end()
        await anyio.wait_readable(over)

    def kill(self, limit: LimitName) -> None:
        """End the whole sandbox for this limit; the first one named is the cause."""
        self.broken = self.broken or limit
        self.end()

    def finish(self) -> cgroup.Counters | None:
        """The final accounts. A program that the kernel's memory killer ended may be gone before anybody looked."""
        if self.group is None:
            return None
        counters = self.group.counters()
        self._check(counters)
        return counters

    def end(self) -> None:
        """Kill what is left of the sandbox."""
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.inner, signal.SIGKILL)

    def _check(self, counters: cgroup.Counters) -> None:
        if counters.oom_kills:
            self.kill("memory_bytes")
        elif counters.cpu_seconds - self.spent >= self.limits.cpu_seconds:
            self.kill("cpu_seconds")


async def drain(stream: FileIO, sink: Sink, watch: Watch) -> None:
    """Move a stream's bytes into its sink until every writer is gone."""
    small = 0
    while True:
        data = stream.read(_CHUNK_BYTES)
        if data is None:
            await anyio.wait_readable(stream)
        elif data:
            sink.write(data)
            if sink.full():
                watch.kill("stored_output_bytes")
            small += len(data) < _SMALL_BYTES
            # A flood must not keep the others from running, and one of tiny writes must not cost the server more than
            # the program: it is let come together in the pipe.
            await (anyio.sleep(_GATHER_SECONDS) if small > _SMALL_READS else anyio.lowlevel.checkpoint())
        else:
            return


def drain_rest(stream: FileIO, sink: Sink) -> None:
    """Move what stands in a stream now, when nobody is left who may write more."""
    while (data := stream.read(_CHUNK_BYTES)) and not sink.full():
        sink.write(data)
