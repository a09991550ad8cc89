"""P14: the host's evidence decides; a report only adds what it alone can know."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.sandbox.base import Outcome
from gloveport.sandbox.run.verdict import judge

GOOD = {"value": 45, "value_type": None, "value_truncated": False, "error": None, "exit_code": 0}


def outcome(**fields):
    known = {
        "exit_code": 0,
        "killed_by": None,
        "report": GOOD,
        "wall_seconds": 1.0,
        "cpu_seconds": 1.0,
        "peak_memory_bytes": 1,
        "refused_forks": 0,
    }
    return Outcome(**{**known, **fields})


def failing(**error):
    fields = {"type": "OSError", "message": "no", "traceback": "tb", "errno": None}
    return {**GOOD, "value": None, "exit_code": 1, "error": {**fields, **error}}


def judged(*, stderr="", truncated=False, **fields):
    return judge(outcome(**fields), stderr=stderr, truncated=truncated)


def test_a_good_run_is_ok_with_its_value():
    verdict = judged()
    assert (verdict.status, verdict.value, verdict.error, verdict.limits_hit) == ("ok", 45, None, ())


def test_a_forged_good_report_does_not_hide_that_the_run_was_killed():
    verdict = judged(killed_by="memory_bytes", exit_code=None)
    assert (verdict.status, verdict.value, verdict.limits_hit) == ("killed", None, ("memory_bytes",))


def test_a_forged_good_report_does_not_hide_a_failing_exit_code():
    verdict = judged(exit_code=1)
    assert (verdict.status, verdict.value) == ("error", None)


@pytest.mark.parametrize(
    "report",
    [None, 1, [], "x", {}, {**GOOD, "more": 1}, {**GOOD, "exit_code": 1 << 40}, {**GOOD, "error": {"type": 1}}],
)
def test_a_report_of_another_shape_counts_as_none(report):
    verdict = judged(report=report)
    assert (verdict.status, verdict.value, verdict.exit_code) == ("ok", None, 0)
    verdict = judged(report=report, exit_code=3)
    assert (verdict.status, verdict.error.type, verdict.exit_code) == ("error", "exit", 3)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_report_makes_judging_fail(report):
    judged(report=report)
    judged(report={**GOOD, "error": report})


@pytest.mark.parametrize(
    ("number", "limit"), [(24, "open_files"), (27, "file_bytes"), (28, "scratch_bytes"), (12, "memory_bytes")]
)
def test_an_errno_names_the_limit(number, limit):
    verdict = judged(exit_code=1, report=failing(errno=number))
    assert (verdict.status, verdict.limits_hit, verdict.error.type) == ("error", (limit,), "OSError")
    assert verdict.hint


def test_no_space_elsewhere_is_no_full_scratch():
    report = failing(errno=28, message="[Errno 28] No space left on device", is_scratch_full=False)
    assert judged(exit_code=1, report=report).limits_hit == ()
    report["error"]["is_scratch_full"] = True
    assert judged(exit_code=1, report=report).limits_hit == ("scratch_bytes",)


def test_a_limits_signal_is_killed_and_another_signal_an_error():
    limited = judged(exit_code=128 + signal.SIGXFSZ, report=None)
    assert (limited.status, limited.limits_hit) == ("killed", ("file_bytes",))
    crashed = judged(exit_code=128 + signal.SIGSEGV, report=None)
    assert (crashed.status, crashed.error.message) == ("error", "ended by SIGSEGV")


def test_words_on_stderr_count_only_when_the_run_failed():
    assert judged(stderr="Too many open files").limits_hit == ()
    assert judged(stderr="Too many open files", exit_code=1, report=None).limits_hit == ("open_files",)


def test_a_timeout_keeps_no_value_and_says_so():
    verdict = judged(killed_by="wall_seconds", exit_code=None, report=None)
    assert (verdict.status, verdict.limits_hit, verdict.exit_code) == ("timeout", ("wall_seconds",), None)


def test_refused_forks_are_named_also_when_the_program_coped():
    verdict = judged(refused_forks=3)
    assert (verdict.status, verdict.limits_hit) == ("ok", ("processes",))


def test_a_forged_signal_or_exit_code_of_a_run_that_ended_well_is_not_believed():
    """P14: the host saw it end with 0."""
    verdict = judged(report={**GOOD, "signal": int(signal.SIGXFSZ), "exit_code": 9}, truncated=True)
    assert (verdict.status, verdict.exit_code, verdict.limits_hit) == ("ok", 0, ("output_bytes",))
