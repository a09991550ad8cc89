"""What a body raises comes out as it is, and its background tasks are over by then."""

import anyio
import pytest

from gloveport.task_group import finish_all, flatten_group, open_task_group

pytestmark = pytest.mark.anyio


async def test_an_error_of_the_body_comes_out_in_no_group_and_the_tasks_are_over():
    ended = anyio.Event()

    async def work():
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def fail():
        async with open_task_group() as tasks:
            tasks.start_soon(work)
            await anyio.wait_all_tasks_blocked()
            raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        await fail()
    assert ended.is_set()


async def test_jobs_end_in_spite_of_a_failure_that_comes_out_in_no_group_and_answer_in_their_order():
    has_failed, ended = anyio.Event(), []

    async def wait():
        await has_failed.wait()
        ended.append("waited")
        return "first"

    async def answer():
        has_failed.set()
        return "second"

    async def fail():
        has_failed.set()
        raise ValueError("of a job")

    assert await finish_all([wait, answer], (ValueError,)) == ["first", "second"]
    has_failed = anyio.Event()
    with pytest.raises(ValueError, match="of a job"):
        await finish_all([wait, fail], (ValueError,))
    assert ended == ["waited", "waited"]


def test_a_group_is_flattened_at_whatever_depth():
    first, second = ValueError(), KeyError()
    assert flatten_group(ExceptionGroup("", [first, ExceptionGroup("", [second])])) == [first, second]
    assert flatten_group(first) == [first]
