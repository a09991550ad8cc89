"""P8: a run that computes without end makes room for the others, and has its own weight again when it rests."""

import os
import select
import time
from pathlib import Path

from gloveport.model import Limits
from gloveport.sandbox.cgroups.kernel_memory import KernelMemory
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.run.limit_watch import LimitWatch

SPIN = """
import select
while not select.select([sys.stdin], [], [], 0)[0]: pass
sys.stdin.readline()
"""


def weight(group):
    """The kernel's number for the share of processor time against that of others."""
    name = "cpu.weight" if group.version == 2 else "cpu.shares"
    return int(Path(f"{group.paths['cpu']}/{name}").read_text())


def quota(group):
    """Microseconds of processor time, and in how many."""
    if group.version == 2:
        return tuple(map(int, Path(f"{group.paths['cpu']}/cpu.max").read_text().split()))
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return tuple(int(Path(f"{group.paths['cpu']}/{name}").read_text()) for name in names)


def test_a_run_that_computes_without_end_weighs_less_for_as_long(tree, start):
    with tree.group(f"run-{os.urandom(4).hex()}", Limits()) as group:
        child = start(SPIN)
        group.attach(child.pid)
        print(file=child.stdin, flush=True)
        inner = os.pidfd_open(child.pid)
        memory = KernelMemory(memory_bytes=Limits().memory_bytes, group=group, pid=child.pid, inner=inner)
        watch = LimitWatch(limits=Limits(), clock=Clock(), group=group, inner=inner, kernel_memory=memory)

        def look_until_other(present):
            deadline = time.monotonic() + 30
            while weight(group) == present and time.monotonic() < deadline:
                watch.look()
                select.select([], [], [], 0.05)
            return weight(group)

        usual = weight(group)
        assert (small := look_until_other(usual)) < usual / 32
        print(file=child.stdin, flush=True)
        assert look_until_other(small) == usual
        memory.close()
        os.close(inner)
