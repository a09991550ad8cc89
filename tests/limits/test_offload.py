"""Issue 15: what takes time by what somebody has sent stops nobody else."""

import threading

import anyio

from gloveport.limits.offload import SMALL_BYTES, compute


async def test_what_is_large_is_computed_while_the_event_loop_goes_on():
    turns, enough = 0, threading.Event()

    def work(text: str) -> str:
        assert enough.wait(60), "nobody had a turn"
        return text

    async def count_turns() -> None:
        nonlocal turns
        while turns < 100:
            await anyio.lowlevel.checkpoint()
            turns += 1
        enough.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        assert await compute(SMALL_BYTES + 1, work, "done") == "done"
    assert turns == 100


async def test_what_is_small_is_computed_at_once():
    assert await compute(SMALL_BYTES, threading.get_ident) == threading.get_ident()


async def test_few_are_computed_at_a_time():
    """Each thread that computes makes the event loop wait for the interpreter's lock."""
    at_work = most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.005)
        with lock:
            at_work -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(compute, SMALL_BYTES + 1, work)
    assert 0 < most <= 2
