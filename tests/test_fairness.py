"""Issue 15: what takes time by what somebody has sent stops nobody else."""

import contextlib
import threading
import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gloveport.fairness import SMALL_BYTES, CrowdedTurns, Pace, choose_forgotten, compute


async def test_what_is_large_is_computed_while_the_event_loop_goes_on():
    turns, enough = 0, threading.Event()

    def work(text: str) -> str:
        assert enough.wait(60), "nobody had a turn"
        return text

    async def count_turns() -> None:
        nonlocal turns
        while turns < 100:
            await checkpoint()
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


@pytest.mark.parametrize("fails", [False, True])
async def test_who_has_computed_for_long_keeps_its_place_for_as_long_again(fails):
    def work() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass
        if fails:
            raise ValueError

    began = time.monotonic()
    with pytest.raises(ValueError) if fails else contextlib.nullcontext():  # noqa: PT011 - it says nothing
        await compute(SMALL_BYTES + 1, work)
    assert time.monotonic() - began >= 0.04


async def test_who_has_computed_for_long_leaves_others_many_turns():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        await checkpoint()
        before = turns
        assert await Pace().rest(time.monotonic() - 0.2)
        assert turns > before + 10
        tasks.cancel_scope.cancel()


async def test_little_pieces_count_together():
    pace = Pace()
    rested = [await pace.rest(time.monotonic() - 0.003) for _ in range(4)]
    assert True in rested
    assert not rested[0]


async def test_those_who_have_computed_do_not_rest_at_the_same_time():
    """They would come back together, and make others wait for all of their pieces."""
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(Pace().rest, time.monotonic() - 0.01)
    assert anyio.current_time() - began >= 8 * 0.01, "each has its own rest, after the others'"


@pytest.mark.parametrize(("count", "seconds", "most"), [(40, 0.001, 500), (1, 0.0, 50)], ids=["crowd", "alone"])
async def test_many_tasks_that_are_always_busy_take_few_turns_and_one_alone_takes_all(count, seconds, most):
    """E4: as the connections of a run. In a crowd each would take as many as who has little to do."""
    turns, taken = CrowdedTurns(), 0

    async def work() -> None:
        nonlocal taken
        while True:
            deadline = time.thread_time() + seconds
            while time.thread_time() < deadline:
                pass
            taken += 1
            await turns.pass_on()

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(work)
        for _ in range(50):
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert most / 50 < taken <= most


def test_the_oldest_of_whoever_has_the_most_is_forgotten():
    assert choose_forgotten([("a", "one", 1), ("b", "two", 1), ("c", "two", 1)]) == "b"
    assert choose_forgotten([("a", "one", 5), ("b", "two", 1), ("c", "two", 1)]) == "a"
    assert choose_forgotten([("a", "one", 1), ("b", "two", 1)]) == "a"
