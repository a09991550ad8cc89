"""Servers that lie, flood, hang or die. Each harms its own calls at most; whoever else is there does not notice."""

import time

import anyio
import pytest
from tests.hub.stalls import going_on
from tests.hub.upstreams import failure, hostile, using, words

pytestmark = pytest.mark.anyio


async def is_well(far, conduct: str = "") -> None:
    """The connection is as good as it was."""
    assert far.state == "ready", conduct
    assert words(await far.call("plain", {}))["listings"] >= 1


@pytest.mark.parametrize(
    ("conduct", "what"),
    [
        ("endless pages", "more than 200 pages"),
        ("same page", "same page"),
        ("many tools", "more than 10000 tools"),
        ("large pages", "65536 bytes"),
        ("no list", "no list of tools"),
        ("large tools", "2097152 bytes together"),
    ],
)
async def test_a_list_that_does_not_end_is_a_fault(conduct, what):
    """H1, P25: endless pages; cost us no more than a list that is as large as one may be."""
    async with using(hostile(conduct, answer_bytes=65536 if conduct == "large pages" else 8 << 20)) as far:
        error = await failure(far.tools())
        assert error.code == "bad_answer"
        assert what in str(error)
        assert far.offered is None


async def test_tools_whose_names_nobody_could_read_or_tell_apart_are_left_out():
    """H1: the first of two with one name counts."""
    async with using(hostile("bad names")) as far:
        assert [(tool.name, tool.description) for tool in await far.tools()] == [("good", "0"), ("später", "7")]


async def test_a_tool_that_says_more_than_anybody_reads_is_left_out(caplog):
    """H1: it would be compared, indexed and declared, again and again."""
    async with using(hostile("large tool")) as far:
        assert [tool.name for tool in await far.tools()] == ["plain", "bad"]
        assert "1 of its tools are left out" in caplog.text


async def test_a_list_of_very_many_properties_is_a_fault_and_stops_nobody():
    """H1, P25: 6 MB of them took ten seconds of the only event loop."""
    async with using(hostile("many properties")) as far, going_on():
        error = await failure(far.tools())
        assert error.code in {"bad_answer", "answer_too_large"}
        assert "100000 values" in str(error)


@pytest.mark.parametrize("conduct", ["many values", "many blocks"])
async def test_an_answer_of_very_many_values_is_an_error_of_its_call_alone_and_stops_nobody(conduct):
    """H1, P25: 8 MiB of empty blocks took eight seconds of the only event loop, of empty lists 460 MiB."""
    async with using(hostile(conduct)) as far:
        await far.tools()
        async with going_on():
            error = await failure(far.call("bad", {}))
        assert error.code == "answer_too_large"
        assert "100000 values" in str(error)
        await is_well(far)


async def test_many_answers_of_many_values_at_once_stop_nobody():
    """H1, P25: they took 1.3 GiB."""
    codes = set()
    async with using(hostile("many values", concurrent_calls=8)) as far:
        await far.tools()

        async def call():
            codes.add((await failure(far.call("bad", {}))).code)

        async with going_on(), anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(call)
    assert codes == {"answer_too_large"}


async def test_an_answer_that_would_take_long_to_check_is_an_error_of_its_call_alone():
    """H1: the SDK checks each block, on our only event loop."""
    async with using(hostile("too many blocks")) as far:
        await far.tools()
        async with going_on():
            error = await failure(far.call("bad", {}))
        assert error.code == "answer_too_large"
        assert "20000 values" in str(error)
        await is_well(far)


async def test_an_answer_with_thousands_of_faults_stops_nobody():
    """H1: each is written down, for each kind of block that it is not."""
    async with using(hostile("wrong values")) as far:
        await far.tools()
        async with going_on():
            error = await failure(far.call("bad", {}))
        assert error.code == "bad_answer"
        assert "values are not as they should be" in str(error)
        await is_well(far)


@pytest.mark.parametrize("conduct", ["huge answer", "huge answer, id last"])
async def test_an_answer_that_is_too_large_is_an_error_of_its_call_alone(conduct):
    """H1, T5: answer_bytes. What the server holds for others, such as an open browser, stays."""
    async with using(hostile(conduct, answer_bytes=1 << 20)) as far:
        before = words(await far.call("plain", {}))
        error = await failure(far.call("bad", {}))
        assert error.code == "answer_too_large"
        assert "1048576 bytes" in str(error)
        assert words(await far.call("plain", {})) == before
        await is_well(far)


@pytest.mark.parametrize(("conduct", "size"), [("huge line", "67108864 bytes"), ("huge notification", "1048576 bytes")])
async def test_what_is_too_large_and_answers_nobody_ends_the_connection(conduct, size):
    """H1, T5: answer_bytes. A line without an end would hide each answer. The next call begins another connection."""
    async with using(hostile(conduct, answer_bytes=1 << 20)) as far:
        async with going_on():
            error = await failure(far.call("bad", {}))
        assert error.code == "answer_too_large"
        assert size in str(error)
        assert words(await far.call("plain", {}))["listings"] == 1


async def test_who_waits_to_send_to_a_server_hears_of_the_end_of_its_connection():
    """H1: else the call hung, and the event loop took the next file with the pipe's number for the pipe."""
    async with using(hostile("huge line instead of reading")) as far:
        await far.tools()
        errors = []

        async def call(tool, arguments):
            errors.append(await failure(far.call(tool, arguments)))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                calls.start_soon(call, "bad", {})
                calls.start_soon(call, "plain", {"text": "x" * 1_000_000})
                calls.start_soon(call, "plain", {"text": "x" * 1_000_000})
        assert {error.code for error in errors} == {"answer_too_large"}
        assert words(await far.call("plain", {}))["listings"] == 1


async def test_a_caller_that_asks_for_too_much_again_and_again_keeps_nobody_from_the_server():
    """P8: for a minute it was not connected to for anybody, as one that fails."""
    async with using(hostile("huge answer", answer_bytes=1 << 20)) as far:
        for _ in range(7):
            assert (await failure(far.call("bad", {}))).code == "answer_too_large"
        assert words(await far.call("plain", {}))["listings"] == 1


@pytest.mark.parametrize(
    "conduct", ["wrong ids", "many wrong ids", "garbage", "flood of notifications", "answers twice"]
)
async def test_what_was_not_asked_for_is_passed_over(conduct):
    """H1: wrong ids, lines that are no messages, notifications, second answers."""
    async with using(hostile(conduct)) as far:
        await far.call("bad", {})
        await is_well(far, conduct)


async def test_thousands_of_changes_cost_one_listing():
    """H1: list_changed, as often as a server can say it."""
    async with using(hostile("flood of changes")) as far:
        assert words(await far.call("bad", {})) == 1
        assert words(await far.call("plain", {}))["listings"] <= 2


async def test_a_list_that_does_not_end_later_on_ends_the_connection():
    """H1: as one that does not end at the beginning; what was offered before stays known."""
    async with using(hostile("endless later")) as far:
        await far.call("bad", {})
        link = far._link
        with anyio.fail_after(30):
            await link.over.wait()
        assert far.state == "failed"
        assert "pages" in far.error
        assert [tool.name for tool in far.offered] == ["plain", "bad"]


async def test_an_answer_after_its_time_is_nobody_s():
    """H1: it is not taken for that of the next call."""
    async with using(hostile("late", call_seconds=2)) as far:
        assert (await failure(far.call("bad", {}))).code == "tool_timeout"
        await is_well(far)


async def test_a_server_that_asks_for_the_model_the_person_or_the_files_is_refused():
    """H7, H8, T1, P25: none of them is a server's to have. It is told so at once, and may know that we are there."""
    async with using(hostile("asks")) as far:
        told = words(await far.call("bad", {}))
        assert [message["id"] for message in told] == ["q0", "q1", "q2", "q3"]
        assert [message["error"]["code"] for message in told[:3]] == [-32601] * 3
        assert told[3]["result"] == {}


async def test_a_server_that_asks_without_end_and_does_not_read_costs_a_call_its_time_and_nothing_else():
    """H1: no task and no memory for each of its requests; others run on."""
    async with using(hostile("asks and does not read", call_seconds=1)) as far:
        await far.tools()
        codes, turns = [], 0

        async def call():
            codes.append((await failure(far.call("bad", {}))).code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            while not codes:
                await anyio.sleep(0.001)
                turns += 1
                assert len(anyio.get_running_tasks()) < 100
        assert codes == ["tool_timeout"]
        assert turns > 5


async def test_a_server_that_does_not_read_delays_a_call_no_longer_than_its_time():
    """H1, T5: call_seconds. The call does not fit into the pipe; nor does the notice that it is off."""
    async with using(hostile("does not read", call_seconds=0.5)) as far:
        await far.tools()
        assert (await failure(far.call("bad", {}))).code == "tool_timeout"
        for _ in range(2):
            began = time.monotonic()
            assert (await failure(far.call("bad", {"much": "x" * (1 << 20)}))).code == "tool_timeout"
            assert time.monotonic() - began < 20


@pytest.mark.parametrize("conduct", ["bad schema", "deep schema"])
async def test_a_schema_that_takes_forever_to_check_an_answer_by_is_not_checked_by(conduct):
    """H1: ``^(a+)+$`` against 64 letters takes longer than anybody lives, on our only event loop."""
    async with using(hostile(conduct)) as far:
        assert {tool.name for tool in await far.tools()} == {"plain", "bad"}
        with anyio.fail_after(30):
            result = await far.call("bad", {})
        assert result.structured_content
        await is_well(far)


@pytest.mark.parametrize(
    "conduct", ["bad result", "no result", "a list", "depth", "depth, id last", "cut off", "no version"]
)
async def test_what_is_no_result_is_an_error_of_its_call_alone_at_once(conduct):
    """H1: it was passed over, and the call waited its whole time."""
    async with using(hostile(conduct, call_seconds=600)) as far:
        with anyio.fail_after(60):
            error = await failure(far.call("bad", {}))
        assert error.code == "bad_answer"
        await is_well(far)


@pytest.mark.parametrize(
    ("conduct", "text"),
    [
        ("half a pair", "café \\ud83d \ufffd"),
        ("other half", "\ufffd\U0001f600"),
        ("no utf-8", "caf\ufffd \ufffd"),
        ("raw surrogate", "\ufffd\ufffd\ufffd"),
    ],
)
async def test_a_text_that_was_cut_in_the_middle_of_a_character_is_mended(conduct, text):
    """H1: ``"…😀".slice(0, 10)`` in Node. Everything else of it is as the server has sent it."""
    async with using(hostile(conduct, call_seconds=600)) as far:
        with anyio.fail_after(60):
            (block,) = (await far.call("bad", {})).content
        assert block.text == text


async def test_what_a_server_says_is_shown_printable_and_short():
    """T4: a terminal obeys what is written to it. And without secrets."""
    clean = lambda text: text.replace("no\n", "[secret x]")  # noqa: E731
    async with using(hostile("error"), clean=clean) as far:
        error = await failure(far.call("bad", {}))
        assert error.code == "server_error"
        assert "-32000" in str(error)
        assert "no" not in str(error)
        assert "[secret x]" in str(error)
        assert "\x1b" not in str(error)
        assert "\n" not in error.args[0]
        assert len(str(error)) < 2500
        await is_well(far)


async def test_a_protocol_that_we_do_not_speak_is_no_connection():
    """H1."""
    async with using(hostile("old")) as far:
        error = await failure(far.tools())
        assert error.code == "server_unavailable"
        assert "1999-01-01" in str(error)


async def test_a_dead_a_silent_and_a_lying_server_delay_nobody_else():
    """H1, H4, P25: all at once in one task group."""
    conducts = (
        "dies at start",
        "silent start",
        "silent list",
        "huge line",
        "endless pages",
        "floods its standard error",
    )

    async def be_bad(conduct):
        async with using(hostile(conduct, startup_seconds=60, call_seconds=60)) as far:
            if conduct == "floods its standard error":
                await far.call("bad", {})
            else:
                await failure(far.call("bad", {}))

    async with anyio.create_task_group() as tasks:
        for conduct in conducts:
            tasks.start_soon(be_bad, conduct)
        async with using(hostile("", startup_seconds=20, call_seconds=20)) as far:
            with anyio.fail_after(20):
                pids = {words(await far.call("plain", {}))["pid"] for _ in range(100)}
        tasks.cancel_scope.cancel()
    assert len(pids) == 1
