"""Admission: bounded places, a bounded queue, a bounded wait, first come first served."""

import anyio
import pytest

from gloveport.errors import Denied
from gloveport.limits import Admission

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_places_are_given_in_the_order_of_asking():
    """E4."""
    admission = Admission(concurrent_runs=1, queue_length=10, queue_seconds=10)
    order = []

    async def ask(number):
        async with admission.place("test"):
            order.append(number)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks, admission.place("test"):
        for number in range(5):
            tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
    assert order == list(range(5))
    assert (admission.running, admission.waiting) == (0, 0)


async def test_nobody_waits_where_the_queue_has_no_length():
    admission = Admission(concurrent_runs=1, queue_length=0, queue_seconds=10)
    async with admission.place("test"):
        with pytest.raises(Denied) as caught:
            async with admission.place("test"):
                pytest.fail("admitted")
    assert caught.value.code == "queue_full"


async def test_a_waiter_gives_up_in_time_and_leaves_the_queue():
    admission = Admission(concurrent_runs=1, queue_length=1, queue_seconds=0.05)
    async with admission.place("test"):
        with pytest.raises(Denied) as caught:
            async with admission.place("test"):
                pytest.fail("admitted")
    assert caught.value.code == "queue_timeout"
    assert admission.waiting == 0


async def test_a_cancelled_waiter_takes_no_place():
    admission = Admission(concurrent_runs=1, queue_length=1, queue_seconds=10)
    async with admission.place("test"), anyio.create_task_group() as tasks:

        async def ask():
            async with admission.place("test"):
                pytest.fail("admitted")

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    async with admission.place("test"):
        assert (admission.running, admission.waiting) == (1, 0)
