"""P8: a program that computes in many processes gives back what it holds in the kernel, again and again."""

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from gloveport.model import Limits
from gloveport.sandbox.cgroups.cpu_throttle import CpuThrottle

DEFAULT = Limits()
USUAL = (100_000, 100_000)
SPIN = """
import os, select, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who is killed is gone, and counts no more
for _ in range(PROCESSES - 1):
    if not os.fork():
        signal.alarm(240)
        while True: pass
while not select.select([sys.stdin], [], [], 0)[0]: pass
os.killpg(0, signal.SIGTERM)
"""


def quota(group):
    """Microseconds of processor time, and in how many."""
    if group.version == 2:
        return tuple(map(int, Path(f"{group.paths['cpu']}/cpu.max").read_text().split()))
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return tuple(int(Path(f"{group.paths['cpu']}/{name}").read_text()) for name in names)


@contextlib.contextmanager
def spinning(tree, start, processes, limits=DEFAULT):
    """A group in which so many processes compute, and its pace."""
    with tree.group(f"run-{os.urandom(4).hex()}", limits) as group:
        child = start(f"import os; os.setpgid(0, 0); PROCESSES = {processes}\n{SPIN}")
        group.attach(child.pid)
        print(file=child.stdin, flush=True)
        try:
            yield group, CpuThrottle(group=group, limits=limits), child
        finally:
            child.stdin.close()
            child.wait()


def look_until(pace, group, reached):
    """Look for as long as it takes, at most 100 seconds: who gets no processor, since others have it, need not stop."""
    deadline = time.monotonic() + 100
    while not (found := reached()) and time.monotonic() < deadline:
        pace.look(group.counters().cpu_seconds)
        select.select([], [], [], 0.05)
    return found


def test_many_processes_that_compute_stop_in_most_periods(tree, start):
    with spinning(tree, start, 16) as (group, pace, _):
        assert look_until(pace, group, lambda: quota(group)[1] == 20_000)
        assert quota(group)[0] <= 20_000
        before = group.throttled_periods()
        assert look_until(pace, group, lambda: group.throttled_periods() >= before + 20)


def test_who_has_fewer_processes_whenever_somebody_looks_is_stopped_all_the_same(tree, start):
    with spinning(tree, start, 16) as (group, pace, _):
        assert look_until(pace, group, lambda: quota(group)[1] == 20_000)
        few = Path(f"{group.paths['pids']}/cgroup.procs").read_text().split()[1:12]
        for pid in few:
            os.kill(int(pid), signal.SIGKILL)
        while group.processes() > 8:
            select.select([], [], [], 0.01)
        before = group.throttled_periods()
        assert look_until(pace, group, lambda: group.throttled_periods() >= before + 20)
        assert quota(group)[1] == 20_000


def test_who_computes_alone_is_not_stopped(tree, start):
    with spinning(tree, start, 1) as (group, pace, _):
        weight = Path(f"{group.paths['cpu']}/{'cpu.weight' if group.version == 2 else 'cpu.shares'}")
        usual = weight.read_text()
        assert look_until(pace, group, lambda: weight.read_text() != usual)
        assert quota(group) == USUAL


def test_who_computes_no_more_has_all_that_the_limits_allow(tree, start):
    with spinning(tree, start, 16) as (group, pace, child):
        assert look_until(pace, group, lambda: quota(group)[1] == 20_000)
        child.stdin.close()
        child.wait()
        assert look_until(pace, group, lambda: quota(group) == USUAL)


def test_who_may_have_little_gets_no_more_by_it(tree, start):
    limits = Limits().model_copy(update={"cpus": 0.02})
    with spinning(tree, start, 16, limits) as (group, pace, _):
        weight = Path(f"{group.paths['cpu']}/{'cpu.weight' if group.version == 2 else 'cpu.shares'}")
        usual = weight.read_text()
        assert look_until(pace, group, lambda: group.throttled_periods() > 10)
        assert quota(group) == (2000, 100_000)
        assert weight.read_text() == usual
