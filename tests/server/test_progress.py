"""Progress of a run, as it is sent."""

import anyio
import pytest

from gloveport.server.tools import progress
from gloveport.server.tools.progress import Progress


@pytest.fixture
def short_heartbeat(monkeypatch):
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.05)


@pytest.fixture
async def reporting():
    """A progress that is being reported, and a queue of what was sent."""
    into, out = anyio.create_memory_object_stream(100)

    async def send(elapsed, total, message):
        await into.send(message)

    reported = Progress(send=send)
    with into, out:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reported.report)
            yield reported, out
            tasks.cancel_scope.cancel()


async def test_a_silent_run_gives_a_sign_of_life(short_heartbeat, reporting):
    """E6: and a line that is not finished is shown then."""
    reported, sent = reporting
    assert await sent.receive() == "running for 0 s"
    reported.add("stdout", "half a li")
    assert await sent.receive() == "half a li"


async def test_a_line_waits_for_its_end(reporting):
    reported, sent = reporting
    reported.add("stdout", "one\ntw")
    assert await sent.receive() == "one"
    reported.add("stdout", "o\n")
    assert await sent.receive() == "two"


async def test_the_sign_of_life_comes_before_a_client_loses_patience():
    assert progress.HEARTBEAT_SECONDS <= 5


async def test_no_escape_sequence_is_sent_though_it_is_cut_in_two(reporting):
    reported, sent = reporting
    reported.add("stdout", "\x1b[3")
    reported.add("stderr", "from the other stream, ")
    reported.add("stdout", "1mred\n")
    assert await sent.receive() == "from the other stream, red"
