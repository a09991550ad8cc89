"""Whoever reads much leaves threads to all others."""

import threading
from functools import partial

import anyio
import pytest
from anyio import to_thread

from gloveport.workspace.files.file_threads import FILE_READS, FILE_SEARCHES, FILE_WRITES, LARGE_READS

pytestmark = pytest.mark.anyio

MANY = 60
"""More than the threads that all work shares."""


async def test_nobody_waits_for_readers_of_large_files():
    """P38: neither readers of small ones nor all other work."""
    end = threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(LARGE_READS.run, "caller", end.wait)
        with anyio.fail_after(30):
            assert await FILE_READS.run(lambda: "small") == "small"
            assert await to_thread.run_sync(lambda: "other") == "other"
        end.set()


@pytest.mark.parametrize(
    "run", [FILE_READS.run, partial(FILE_SEARCHES.run, "caller"), partial(FILE_WRITES.run, "caller")]
)
async def test_other_work_does_not_wait_for_readers_searchers_and_writers_at_all(run):
    """P38."""
    end = threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(run, end.wait)
        with anyio.fail_after(30):
            assert await to_thread.run_sync(lambda: "other") == "other"
        end.set()


@pytest.mark.parametrize("threads", [LARGE_READS, FILE_SEARCHES, FILE_WRITES])
async def test_callers_take_turns_at_large_reads_searches_and_writes(threads):
    """P8: twenty files of a gigabyte, or patches of 30 MiB, kept another caller's small one waiting for a minute."""
    served, begin = [], threading.Event()

    def work(caller):
        begin.wait()
        served.append(caller)

    async with anyio.create_task_group() as tasks:
        for caller in [*["greedy"] * MANY, "other"]:
            tasks.start_soon(threads.run, caller, work, caller)
        await anyio.wait_all_tasks_blocked()
        begin.set()
    assert served.index("other") < MANY // 2  # the sixth to begin, though its thread may be slow; else the last
