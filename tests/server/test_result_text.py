"""Results as text."""

import pytest

from gloveport.model import Failure, Output, Result, Usage
from gloveport.server.rendering.result_text import answer, failure_text, value_text


def test_the_status_line_names_what_ended_the_run():
    result = Result(
        run_id="run-1",
        language="python",
        status="killed",
        limits_hit=("memory_bytes",),
        exit_code=137,
        usage=Usage(wall_ms=31),
        hint="hold less",
    )
    assert answer(result) == "killed (memory_bytes), exit code 137, 31 ms, run-1\nhint: hold less"


def test_the_status_line_counts_what_the_program_asked_of_others():
    """E2: most agents show their model the text alone."""
    result = Result(run_id="run-1", language="shell", status="ok", requests_total=2, tool_calls_total=1)
    assert answer(result) == "ok, 0 ms, 2 requests, 1 tool call, run-1"


def test_what_is_cut_is_said_before_all_output_and_by_which_call_it_is_read():
    """Codex drops the middle of a long answer, and opencode its end."""
    result = Result(
        run_id="run-1",
        language="shell",
        status="ok",
        limits_hit=("output_bytes",),
        stdout=Output(text="1\n[…]\n9", total_bytes=90_000, truncated=True, handle="output://run-1/stdout"),
        stderr=Output(text="all of it", total_bytes=9),
    )
    assert answer(result).splitlines()[:3] == [
        "ok (output_bytes), 0 ms, run-1",
        "stdout is cut: read_output(output_ref='output://run-1/stdout') has all 90000 bytes",
        "stdout:",
    ]


def test_a_shell_program_s_value_does_not_repeat_its_output():
    result = Result(run_id="run-1", language="shell", status="ok", value=7, stdout=Output(text="7\n"))
    assert answer(result) == "ok, 0 ms, run-1\nstdout:\n7"


@pytest.mark.parametrize(
    ("value", "value_type", "expected"),
    [
        (None, None, ""),
        ("a\nb", None, '"a\\nb"'),
        ({"é": [1, None]}, None, '{"é": [1, null]}'),
        ("<object>", "object", "<object>"),
        ("\x1b]0;title\x07x", "object", "x"),
    ],
)
def test_a_value_is_json_or_what_stands_for_it(value, value_type, expected):
    assert (
        value_text(Result(run_id="r", language="python", status="ok", value=value, value_type=value_type)) == expected
    )


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(type="ValueError", message="x"), "ValueError: x"),
        (Failure(type="ValueError", message=""), "ValueError"),
        (Failure(type="exit", message="exit code 3"), "exit code 3"),
        (Failure(type="ValueError", message="x", traceback="Traceback\nValueError: x\n"), "Traceback\nValueError: x"),
        (Failure(type="E\x1b[2J", message="\x1b[31mx"), "E: x"),
    ],
)
def test_a_failure_reads_as_the_interpreter_would_print_it(failure, expected):
    assert failure_text(failure) == expected
