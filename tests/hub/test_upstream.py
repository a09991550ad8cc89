"""One server that behaves: connected when it is wanted, listed, called, told of changes."""

import itertools
import time

import anyio
import pytest
from mcp_types import ImageContent, TextContent
from tests.hub.upstreams import failure, give_up_a_call, hostile, noting, plain, until, using, words

from gloveport.errors import Denied
from gloveport.hub.connection.breaker import Breaker

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def far():
    """A server made with the SDK, connected; for tests that leave it as it is."""
    async with using(plain(concurrent_calls=100)) as upstream:
        yield upstream


async def test_nothing_is_started_before_it_is_wanted(is_running):
    """H1: lazily."""
    async with using(hostile("never started, this one")) as far:
        assert far.state == "idle"
        assert far.offered is None
        await anyio.lowlevel.checkpoint()
        assert not is_running("never started, this one")


async def test_all_who_come_meanwhile_share_one_connection():
    """H1: and one process."""
    async with using(hostile("")) as far:
        pids = set()

        async def call():
            pids.add(words(await far.call("plain", {}))["pid"])

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(call)
                tasks.start_soon(far.tools)
            await anyio.lowlevel.checkpoint()
            assert far.state == "connecting"
        assert len(pids) == 1
        assert far.state == "ready"
        assert far.error == ""


async def test_who_goes_away_while_it_connects_takes_nobody_along():
    """A cancel is its own."""
    async with using(hostile("")) as far:
        async with anyio.create_task_group() as tasks:
            first = anyio.CancelScope()

            async def impatient():
                with first:
                    await far.tools()

            tasks.start_soon(impatient)
            tasks.start_soon(far.tools)
            await anyio.lowlevel.checkpoint()
            first.cancel()
        assert far.state == "ready"


async def test_tools_are_as_the_server_describes_them(far):
    """H1, H5: names, schemas and hints."""
    tools = {tool.name: tool for tool in await far.tools()}
    add = tools["add"]
    assert (add.server, add.description, add.read_only, add.destructive) == ("far", "Add two numbers.", True, False)
    assert set(add.input_schema["properties"]) == {"a", "b"}
    assert add.output_schema is not None
    assert tools["fail"].destructive


async def test_the_answer_is_the_server_s_own(far):
    """H3: structured content, text, and every block."""
    assert (await far.call("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    kinds = [type(block) for block in (await far.call("picture", {})).content]
    assert kinds == [TextContent, ImageContent]
    failed = await far.call("fail", {"why": "because"})
    assert failed.is_error
    assert "because" in words(failed)


async def test_all_pages_are_listed():
    """H1: pagination."""
    async with using(hostile("three pages")) as far:
        assert [tool.name for tool in await far.tools()] == ["t0", "t1", "t2"]


async def test_a_call_that_takes_too_long_ends_in_time_and_is_told_to_stop():
    """H1, T5: call_seconds. To wait for a place counts: the second has no time left when the first is over."""
    async with using(plain(concurrent_calls=1, call_seconds=2)) as far:
        await far.tools()
        errors = []

        async def call(name):
            errors.append(await failure(far.call("sleep", {"seconds": 60, "name": name})))

        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "one")
            tasks.start_soon(call, "two")
        assert time.monotonic() - began < 3.5
        assert [error.code for error in errors] == ["tool_timeout"] * 2
        assert "2 s" in str(errors[0])
        stopped = (await far.call("stopped", {})).structured_content["result"]
        assert stopped in (["one"], ["one", "two"])  # their times end at the same moment: the place may be free first


async def test_many_calls_of_one_run_keep_no_other_run_waiting_until_all_of_them_are_done():
    """P8: calls that wait for a place take turns, run by run."""
    async with using(plain(concurrent_calls=1)) as far:
        await far.tools()
        order = []

        async def call(run):
            await far.call("sleep", {"seconds": 0.1}, run=run)
            order.append(run)

        async with anyio.create_task_group() as tasks:
            for run in ("flood",) * 6 + ("other",):
                tasks.start_soon(call, run)
                await anyio.lowlevel.checkpoint()
        assert order.index("other") <= 2, order


async def test_whether_a_tool_may_still_be_called_is_asked_when_all_waiting_is_over():
    """H5: while it waits for its place, and for a connection made anew, the server may have changed it."""
    async with using(plain(concurrent_calls=1)) as far:
        await far.tools()
        order = []

        async def sleep():
            await far.call("sleep", {"seconds": 0.2, "name": "first"})
            order.append("slept")

        def refuse():
            order.append("asked")
            raise Denied("tool_held_back", "it is another one")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleep)
            await anyio.lowlevel.checkpoint()
            with pytest.raises(Denied):
                await far.call("add", {"a": 1, "b": 2}, refuse)
        assert order == ["slept", "asked"]


async def test_who_gives_up_a_call_stops_it_at_the_server(far):
    """H1: cancellation."""
    await far.tools()
    await give_up_a_call(far)


async def test_a_hundred_calls_at_once_all_come_back(far):
    """H2."""
    sums = []

    async def call(number):
        sums.append((await far.call("add", {"a": number, "b": 1})).structured_content["result"])

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(call, number)
    assert sorted(sums) == list(range(1, 101))


@pytest.mark.parametrize(
    ("conduct", "how"), [("dies", "status 3"), ("is killed", "SIGKILL"), ("closes its output", "")]
)
async def test_a_server_that_ends_in_a_call_is_not_called_again_but_the_next_call_starts_another(conduct, how):
    """H1: the call may have had an effect. All that were on their way hear of it, at once."""
    async with using(hostile(conduct)) as far:
        first = words(await far.call("plain", {}))["pid"]
        errors = []

        async def call():
            errors.append(await failure(far.call("bad", {})))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call)
        assert {error.code for error in errors} == {"server_gone"}
        assert how in str(errors[0])
        assert far.state == "failed"
        assert words(await far.call("plain", {}))["pid"] != first
        assert far.state == "ready"


async def test_a_server_that_does_not_start_in_time_is_given_up():
    """T5: startup_seconds, which the list of tools belongs to."""
    for conduct in ("silent start", "silent list"):
        async with using(hostile(conduct, startup_seconds=0.5)) as far:
            began = time.monotonic()
            error = await failure(far.tools())
            assert error.code == "server_unavailable"
            assert "0.5 s" in str(error)
            assert time.monotonic() - began < 15


async def test_a_server_that_says_its_tools_have_changed_is_listed_again():
    """H1: list_changed, in the modern protocol by a subscription."""
    told = []
    async with using(plain(), on_tools=noting(told)) as far:
        await far.tools()
        with anyio.fail_after(30):
            for number in itertools.count():  # until the server has our subscription
                await far.call("grow", {"name": f"another{number}"})
                if len(told) > 1:
                    break
        assert "another" in {tool.name[:7] for tool in told[1]}
        assert far.offered == told[-1]


async def test_a_handshake_server_that_says_so_is_listed_again():
    """H1, H5: what it now says of a tool may be quite another thing."""
    told = []
    async with using(hostile("renamed later"), on_tools=noting(told)) as far:
        await far.call("bad", {})
        await until(lambda: len(told) == 2)
        assert told[1][1].description == "Another."
        assert told[0][1].digest != told[1][1].digest


async def test_a_server_that_ends_when_it_hears_of_a_newer_protocol_is_spoken_with_in_the_older_one():
    """H1: such are made with a library that is in wide use."""
    async with using(hostile("knows the older handshake alone")) as far:
        assert words(await far.call("plain", {}))["listings"] == 1


async def test_a_server_that_fails_again_and_again_is_left_alone_for_longer_and_longer():
    """H1: back-off and circuit breaker; time is the test's."""
    now = [100.0]
    async with using(hostile("dies at start"), clock=lambda: now[0]) as far:
        for _ in range(5):
            assert "status 7" in str(await failure(far.tools()))
        for wait in (1, 2, 4):
            refused = await failure(far.call("plain", {}))
            assert refused.code == "server_unavailable"
            assert "times in a row" in str(refused)
            assert f"in {wait} s" in refused.hint
            now[0] += wait
            tried = await failure(far.tools())
            assert "times in a row" not in str(tried)


async def test_a_server_that_starts_and_dies_at_each_call_is_left_alone_too():
    """H1: to start is no success by itself."""
    async with using(hostile("dies")) as far:
        codes = [(await failure(far.call("bad", {}))).code for _ in range(6)]
    assert codes == ["server_gone"] * 5 + ["server_unavailable"]


async def test_a_call_that_is_answered_closes_the_breaker():
    """H1."""
    async with using(hostile("dies")) as far:
        for _ in range(3):
            await failure(far.call("bad", {}))
            await failure(far.call("bad", {}))
            await far.call("plain", {})
        assert far._breaker.failures == 0


async def test_what_is_closed_is_not_opened_again():
    """A configuration that is no more starts nothing."""
    async with using(hostile("")) as far:
        await far.tools()
        await far.close()
        assert (await failure(far.tools())).code == "server_unavailable"
        assert (await failure(far.call("plain", {}))).code == "server_unavailable"


async def test_closing_ends_what_is_going_on():
    """Calls hear of it, and so does a connection that is being made."""
    async with using(hostile("silent")) as far:
        await far.tools()
        async with anyio.create_task_group() as tasks:
            codes = []

            async def call():
                codes.append((await failure(far.call("bad", {}))).code)

            tasks.start_soon(call)
            await anyio.sleep(0.1)
            await far.close()
        assert codes == ["server_gone"]
    async with using(hostile("silent start")) as far, anyio.create_task_group() as tasks:
        codes = []

        async def list_tools():
            codes.append((await failure(far.tools())).code)

        tasks.start_soon(list_tools)
        await until(lambda: far.state == "connecting")
        await far.close()
        await until(lambda: codes == ["server_unavailable"])


def test_the_breaker_opens_after_five_failures_and_lets_one_try_at_a_time():
    """H1."""
    now = [0.0]
    breaker = Breaker(clock=lambda: now[0])
    for _ in range(4):
        breaker.fail()
        assert breaker.admit()
    breaker.fail()
    assert breaker.state == "open"
    assert breaker.wait == 1
    assert not breaker.admit()
    now[0] = 1
    assert breaker.state == "half-open"
    assert breaker.admit()
    assert not breaker.admit()
    breaker.give_up()
    assert breaker.admit()
    breaker.succeed()
    assert breaker.state == "closed"


def test_the_breaker_waits_no_longer_than_a_minute():
    """H1."""
    now = [0.0]
    breaker = Breaker(clock=lambda: now[0])
    waits = []
    for _ in range(5000):
        breaker.fail()
        waits.append(breaker.wait)
    assert waits[:12] == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert set(waits[12:]) == {60}
