"""E6: runs that outlive the requests that began them."""

import anyio
import pytest

from gloveport.engine.runs import running
from gloveport.model import Result


@pytest.fixture
async def runs():
    async with running() as room:
        yield room


def result(run):
    return Result(run_id=run.id, language="python", status="ok")


async def over(run):
    while not run.is_over:
        assert await run.wait_changed(5)


async def test_a_run_goes_on_without_whoever_began_it(runs):
    go_on = anyio.Event()

    async def execute(run):
        await go_on.wait()
        return result(run)

    run = runs.begin("me", "python", execute)
    assert not run.is_over
    go_on.set()
    await over(runs.find(run.id, "me"))
    assert run.result.run_id == run.id


async def test_nobody_else_learns_of_a_run(runs):
    async def execute(run):
        return result(run)

    run = runs.begin("me", "python", execute)
    assert runs.find(run.id, "you") is None
    assert runs.find("run-0000000000000000", "me") is None


async def test_a_run_that_is_cancelled_is_over_and_has_no_result(runs):
    async def execute(_run):
        await anyio.sleep_forever()

    run = runs.begin("me", "python", execute)
    run.cancel()
    await over(run)
    assert (run.result, run.failure) == (None, None)


async def test_a_run_that_fails_ends_no_other(runs):
    async def fail(_run):
        raise OSError("disk")

    async def execute(run):
        return result(run)

    bad, good = runs.begin("me", "python", fail), runs.begin("me", "python", execute)
    await over(bad)
    await over(good)
    assert str(bad.failure) == "disk"
    assert good.result is not None


async def test_who_waits_for_news_gives_up_in_time(runs):
    async def execute(_run):
        await anyio.sleep_forever()

    assert not await runs.begin("me", "python", execute).wait_changed(0)


async def test_results_that_nobody_fetches_are_not_kept_for_ever(runs):
    async def execute(run):
        return result(run)

    first = runs.begin("me", "python", execute)
    await over(first)
    for _ in range(200):
        await over(runs.begin("me", "python", execute))
    assert runs.find(first.id, "me") is None


async def test_nobody_drives_out_what_another_has_not_fetched_yet(runs):
    """P27."""

    async def execute(run):
        return result(run)

    other = runs.begin("other", "python", execute)
    await over(other)
    for _ in range(200):
        await over(runs.begin("me", "python", execute))
    assert runs.find(other.id, "other").result.run_id == other.id


async def test_the_end_of_the_server_ends_its_runs():
    ended = anyio.Event()

    async def execute(_run):
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with running() as room:
        room.begin("me", "python", execute)
        await anyio.lowlevel.checkpoint()
    assert ended.is_set()
