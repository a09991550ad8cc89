"""P8: what a program says costs the server little, however much it is, and all of it is heard."""

import contextlib
import json
import math
import os
import pty
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from io import FileIO

import anyio
import pytest

from gloveport.model import Limits
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.run.limit_watch import LimitWatch
from gloveport.sandbox.run.supervisor import Supervisor, watch_files

SECONDS = 2.4
TINY = "import os\nwhile True: os.write(1, b'x'); os.write(2, b'y')"
HUNDRED_MEGABYTES = "import os, sys\nfor _ in range(1600): os.write(1, bytes(65536))"
FLOODS = {"large": ["yes"], "tiny": [sys.executable, "-c", TINY]}


@dataclass
class Count:
    """A sink."""

    total: int = 0

    def write(self, data: bytes) -> None:
        self.total += len(data)

    def full(self) -> bool:
        return False


def frame(message):
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "big") + body


async def heard(command: list[str], seconds: float, *, on_terminal: bool = False) -> int:
    """How many bytes were heard of a command, which may go on for so long."""
    pairs = [pty.openpty()] if on_terminal else [os.pipe(), os.pipe()]
    theirs = [pair[1] for pair in pairs]
    sink, (channel, far) = Count(), socket.socketpair()
    channel.settimeout(0)
    with contextlib.ExitStack() as stack, channel, far:
        process = stack.enter_context(subprocess.Popen(command, stdout=theirs[0], stderr=theirs[-1]))
        stack.callback(process.kill)
        for number in theirs:
            os.close(number)
        over = stack.enter_context(FileIO(os.pidfd_open(process.pid)))
        inner, limits = over.fileno(), Limits(wall_seconds=seconds)
        held = stack.enter_context(
            contextlib.closing(KernelMemory(memory_bytes=limits.memory_bytes, group=None, pid=process.pid, inner=inner))
        )
        watch = LimitWatch(limits=limits, clock=Clock(), group=None, inner=inner, kernel_memory=held)
        streams = [stack.enter_context(FileIO(number)) for number, _ in pairs]
        events = stack.enter_context(watch_files(*streams, channel, over))
        supervisor = Supervisor(
            watch=watch, channel=channel, report_bytes=1024, over=over, ends_with_report=False, events=events
        )
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
            supervisor.collect(stream, sink)
        far.close()
        await supervisor.run()
    return sink.total


@pytest.mark.parametrize(
    ("command", "on_terminal"),
    [(FLOODS["large"], False), (FLOODS["tiny"], False), (FLOODS["tiny"], True)],
    ids=["large writes", "tiny writes", "tiny writes on a terminal"],
)
async def test_a_flood_takes_little_of_a_processor_from_the_server(command, on_terminal):
    """It gets half a second and then three hundredths, and what isn't counted; without that bound, half of the time."""
    began = time.thread_time()
    assert await heard(command, SECONDS, on_terminal=on_terminal)
    assert time.thread_time() - began < 0.9


async def test_all_of_a_hundred_megabytes_is_heard():
    assert await heard([sys.executable, "-c", HUNDRED_MEGABYTES], 300) == 1600 * 65536


@contextlib.contextmanager
def sandbox(wall_seconds, over=None):
    """Yields the far end of a sandbox's channel, and a function that makes a supervisor of the sandbox.

    ``over``: what tells its end; by default that of its process.
    """
    channel, far = socket.socketpair()
    channel.settimeout(0)
    with contextlib.ExitStack() as stack, channel, far:
        process = stack.enter_context(subprocess.Popen(["sleep", "60"]))
        stack.callback(process.kill)
        first = stack.enter_context(FileIO(os.pidfd_open(process.pid)))
        inner, limits = first.fileno(), Limits(wall_seconds=wall_seconds)
        held = KernelMemory(memory_bytes=limits.memory_bytes, group=None, pid=process.pid, inner=inner)
        stack.enter_context(contextlib.closing(held))
        events = stack.enter_context(watch_files(channel, over or first))

        def make_supervisor(**more):
            return Supervisor(
                watch=LimitWatch(limits=limits, clock=Clock(), group=None, inner=inner, kernel_memory=held),
                channel=channel,
                report_bytes=1024,
                over=over or first,
                ends_with_report=True,
                events=events,
                **more,
            )

        yield far, make_supervisor


async def test_an_answer_right_behind_one_that_is_ignored_is_heard():
    with sandbox(wall_seconds=5) as (far, make_supervisor):
        supervisor = make_supervisor(ignored=1)
        far.sendall(frame({"call": 1, "report": 1}) + frame({"call": 2, "report": 2}))
        await supervisor.run()
    assert supervisor.answer == {"call": 2, "report": 2}


async def test_an_end_that_another_supervisor_has_seen_before_it_was_left_is_seen_by_the_next():
    """P8: a call of a session waited forever, and held its place, where the sandbox died just before it."""
    over, teller = socket.socketpair()
    with over, sandbox(1, over) as (_far, make_supervisor):
        teller.close()
        for leaves in (time.monotonic(), math.inf):
            supervisor = make_supervisor(leaves=leaves)
            with anyio.fail_after(20):
                await supervisor.run()
            assert supervisor.is_left == (leaves < math.inf)


async def test_what_is_written_without_end_after_the_answer_to_a_call_holds_nobody_up():
    """P8: processes in the background of a session fill their pipe as fast as the server reads it."""
    with sandbox(wall_seconds=5) as (far, make_supervisor), FileIO("/dev/zero") as endless:
        supervisor = make_supervisor()
        supervisor.collect(endless, Count())
        far.sendall(frame({"report": 1}))
        with anyio.fail_after(20):
            await supervisor.run()
    assert supervisor.report == 1
