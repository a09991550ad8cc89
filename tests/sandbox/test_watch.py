"""P8: a run that computes without end makes room for the others, and has its own weight again when it rests."""

import os
import select
import time
from pathlib import Path

from gloveport.model import Limits
from gloveport.sandbox import cgroup
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.kernel_memory import KernelMemory
from gloveport.sandbox.watch import Watch

SPIN = """
import select
while not select.select([sys.stdin], [], [], 0)[0]: pass
sys.stdin.readline()
"""


def weight(group):
    """The share of processor time against that of others: 1 is that of a run."""
    if group.version == 2:
        return int(Path(f"{group.paths['cpu']}/cpu.weight").read_text()) / 100
    return int(Path(f"{group.paths['cpu']}/cpu.shares").read_text()) / 1024


def test_a_run_that_computes_without_end_weighs_less_for_as_long(tree, start):
    with tree.group(f"run-{os.urandom(4).hex()}", Limits()) as group:
        child = start(SPIN)
        group.attach(child.pid)
        print(file=child.stdin, flush=True)
        inner = os.pidfd_open(child.pid)
        memory = KernelMemory(memory_bytes=Limits().memory_bytes, group=group, pid=child.pid, inner=inner)
        watch = Watch(limits=Limits(), clock=Clock(), group=group, inner=inner, held=memory)

        def look_until(wanted):
            deadline = time.monotonic() + 30
            while weight(group) != wanted and time.monotonic() < deadline:
                watch.look()
                select.select([], [], [], 0.05)
            return weight(group)

        assert weight(group) == 1
        assert look_until(cgroup.BACKGROUND) == cgroup.BACKGROUND
        print(file=child.stdin, flush=True)
        assert look_until(1) == 1
        memory.close()
        os.close(inner)
