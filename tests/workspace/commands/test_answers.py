"""How a client is told of a command: what is new, what is left out, where the rest is."""

import tempfile
from pathlib import Path

import pytest
from tests.cases import for_each

from gloveport.sandbox.base import Outcome
from gloveport.workspace.commands.answers import AnswerBounds, answer, page, parse_reference, told_offsets
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError

SPOOL = Path(tempfile.gettempdir())


@pytest.fixture
async def command():
    return Command(id="abc", owner="me", is_terminal=False, spool=SPOOL)


def end(command, **changes):
    """It is over."""
    outcome = {"exit_code": 0, "killed_by": None, "report": None, "wall_seconds": 1.0, "cpu_seconds": None}
    outcome |= {"peak_memory_bytes": None, "refused_forks": None} | changes
    command.outcome = Outcome(**outcome)
    command.end()


def told(command, since=None, **more):
    return answer(command, since or told_offsets(command), AnswerBounds(**more))


async def test_what_was_told_is_not_told_again(command):
    """W4"""
    command.outputs["stdout"].write(b"one\n")
    assert told(command)["stdout"] == "one\n"
    assert told(command)["stdout"] == ""
    command.outputs["stdout"].write(b"two\n")
    assert told(command)["stdout"] == "two\n"


async def test_two_calls_that_began_together_are_told_the_same(command):
    """CT-L8"""
    since = told_offsets(command)
    command.outputs["stdout"].write(b"one\n")
    assert [told(command, since)["stdout"] for _ in range(2)] == ["one\n"] * 2


async def test_half_a_character_is_told_with_its_rest_and_at_the_end_as_it_is(command):
    """W4"""
    command.outputs["stdout"].write(b"a\xc3")
    assert command.outputs["stdout"].whole == 1
    assert told(command)["stdout"] == "a"
    assert command.outputs["stdout"].told_bytes == command.outputs["stdout"].whole
    end(command)
    assert told(command)["stdout"] == "\ufffd"


async def test_what_was_left_out_and_what_is_gone_add_up(command):
    """W4: omitted is kept and was not told; dropped is gone."""
    command.outputs["stdout"].write(bytes(2_000_000))
    end(command)
    one = told(command, max_output_bytes=1000)
    assert one["stdout_dropped_bytes"] == 2_000_000 - 524_288
    assert one["stdout_output_bytes"] + one["stdout_omitted_bytes"] + one["stdout_dropped_bytes"] == 2_000_000


@pytest.mark.parametrize(
    ("changes", "status", "outcome", "code", "signal"),
    [
        ({}, "exited", "exited_0", 0, None),
        ({"exit_code": 2}, "exited", "exited_nonzero", 2, None),
        ({"exit_code": 143, "signal": 15}, "terminated", "signal", -15, "SIGTERM"),
        ({"exit_code": 143}, "exited", "exited_nonzero", 143, None),
        ({"exit_code": None, "killed_by": "wall_seconds"}, "timeout", "timeout", -9, "SIGKILL"),
        ({"exit_code": None, "killed_by": "memory_bytes"}, "terminated", "signal", -9, "SIGKILL"),
    ],
)
async def test_how_it_ended_is_told_in_every_field(command, changes, status, outcome, code, signal):
    """W4"""
    end(command, **changes)
    one = told(command)
    assert (one["status"], one["operation_outcome"], one["exit_code"], one["signal"]) == (status, outcome, code, signal)
    assert one["timed_out"] == (status == "timeout")


async def test_a_limit_that_ended_it_is_pointed_out(command):
    """W4, R1"""
    end(command, exit_code=None, killed_by="memory_bytes")
    (one,) = told(command)["diagnostics"]
    assert (one["code"], one["severity"]) == ("LIMIT_REACHED", "error")
    assert "memory_bytes" in one["evidence"]


async def test_a_name_that_was_not_found_is_pointed_out_where_it_failed(command):
    """W4: section 2.3, from an exit code that says so."""
    command.outputs["stderr"].write(b"curl: (6) Could not resolve host: example.com\n")
    end(command, exit_code=6)
    assert [one["code"] for one in told(command)["diagnostics"]] == ["DNS_RESOLUTION_FAILED"]


@pytest.mark.parametrize(
    ("can_ask", "says", "says_not"),
    [(True, "ask for the permission network", "no API"), (False, "no API of the operator's", "permission network")],
)
async def test_who_can_not_open_the_network_is_not_sent_to_ask_for_it(command, can_ask, says, says_not):
    """W4, W5: or it asks, is told that it needs no permission, and tries again for ever."""
    command.can_ask_for_network = can_ask
    command.outputs["stderr"].write(b"curl: (6) Could not resolve host: example.com\n")
    end(command, exit_code=6)
    (one,) = told(command)["diagnostics"]
    assert says in one["suggested_fix"]
    assert says_not not in one["suggested_fix"]


@pytest.mark.parametrize(
    ("has_all", "evidence", "says"),
    [(False, "timeout_ms", "give it more time"), (True, "wall_seconds", "no command gets more time")],
)
async def test_who_can_have_no_more_time_is_not_told_to_give_it_more(command, has_all, evidence, says):
    """W4, R1: the operator's limit, not the caller's timeout."""
    command.has_all_time = has_all
    end(command, exit_code=None, killed_by="wall_seconds")
    (one,) = told(command)["diagnostics"]
    assert (one["code"], evidence in one["evidence"], says in one["suggested_fix"]) == ("COMMAND_TIMED_OUT", True, True)


async def test_what_is_left_out_is_counted_from_what_was_told_last(command):
    """W4: and what is gone of that, not of all."""
    command.outputs["stdout"].write(b"x" * 1_000_000)
    first = told(command, max_output_bytes=1000)
    assert first["diagnostics"][0]["evidence"] == "stdout: 999000 bytes are left out, 475712 of them for good"
    command.outputs["stdout"].write(b"y" * 5000)
    second = told(command, max_output_bytes=1000)
    assert second["diagnostics"][0]["evidence"] == "stdout: 4000 bytes are left out"


async def test_a_disk_that_was_full_is_pointed_out_where_output_is_left_out(command):
    command.outputs["stdout"].write(b"x" * 1000)
    command.outputs["stdout"].retained.failure = "output can't be stored in /var/tmp"
    (one,) = told(command, max_output_bytes=10)["diagnostics"]
    assert one["code"] == "OUTPUT_TRUNCATED"
    assert one["suggested_fix"].endswith("; output can't be stored in /var/tmp")


async def test_a_page_in_the_gap_moves_to_its_end(command):
    """W4"""
    command.outputs["stderr"].write(b"x" * 1_000_000)
    end(command)
    one = page(command, "stderr", 100_000, 10)
    assert (one["offset"], one["omitted_bytes"]) == (1_000_000 - 458_752, 1_000_000 - 458_752 - 100_000)
    assert one["next_action"]["arguments"] == {"output_ref": "command:abc:stderr", "offset": one["offset"] + 10}


async def test_pages_do_not_tear_characters_and_always_go_on(command):
    """W4: also where a page is smaller than a character."""
    command.outputs["stdout"].write("äöü€😀".encode())
    end(command)
    for limit in (4, 5, 7):
        offset, text = 0, ""
        while offset is not None:
            one = page(command, "stdout", offset, limit)
            assert one["next_offset"] is None or one["next_offset"] > offset
            text, offset = text + one["content"], one["next_offset"]
        assert text == "äöü€😀"
    assert page(command, "stdout", 0, 1)["next_offset"] == 1


@for_each("reference", ["", "x", "command", "command:abc", "command::stdout", "file:abc:stdout"])
def test_a_reference_that_is_none_is_refused(reference):
    """W4"""
    with pytest.raises(WorkspaceError) as error:
        parse_reference(reference, None)
    assert error.value.code == "INVALID_ARGUMENT"


async def test_a_reference_names_a_stream_and_no_other(command):
    """W4: ids may hold what separates."""
    assert parse_reference("command:a:b:stderr", "stderr") == ("a:b", "stderr")
    with pytest.raises(WorkspaceError):
        parse_reference("command:abc:stderr", "stdout")
