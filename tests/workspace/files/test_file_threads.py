"""Whoever reads much leaves threads to all others."""

import threading

import anyio
import pytest
from anyio import to_thread

from gloveport.workspace.files.file_threads import (
    read_in_thread,
    read_large_in_thread,
    search_in_thread,
    write_in_thread,
)

pytestmark = pytest.mark.anyio

MANY = 60
"""More than the threads that all work shares."""


async def test_nobody_waits_for_readers_of_large_files():
    """P38: neither readers of small ones nor all other work."""
    end = threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(read_large_in_thread, end.wait)
        with anyio.fail_after(30):
            assert await read_in_thread(lambda: "small") == "small"
            assert await to_thread.run_sync(lambda: "other") == "other"
        end.set()


@pytest.mark.parametrize("call", [read_in_thread, search_in_thread, write_in_thread])
async def test_other_work_does_not_wait_for_readers_searchers_and_writers_at_all(call):
    """P38."""
    end = threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(call, end.wait)
        with anyio.fail_after(30):
            assert await to_thread.run_sync(lambda: "other") == "other"
        end.set()
