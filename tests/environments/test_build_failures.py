"""What is said where a program of a build fails."""

from msgspec.structs import replace

from gloveport.engine.build_sandboxes import ProgramEnding
from gloveport.sandbox.base import Outcome

_OUTCOME = Outcome(
    exit_code=1,
    killed_by=None,
    report=None,
    wall_seconds=1,
    cpu_seconds=None,
    peak_memory_bytes=None,
    refused_forks=None,
)


def test_a_full_disk_is_not_taken_for_packages_that_do_not_fit_together():
    text = "error: failed to write to file `/opt/x`: No space left on device (os error 28)"
    ending = ProgramEnding(outcome=_OUTCOME, text=text, refused=None)
    assert ending.has_cause_of_its_own
    refusal = ending.failure("packages_unresolved", "There are no versions that fit together")
    assert refusal.reason == f"There is no room: {text}"
    assert refusal.hint == "make room on the disk of the state directory"


def test_nor_is_a_limit_at_which_a_build_is_ended_such_as_by_a_page_of_gigabytes():
    outcome = replace(_OUTCOME, exit_code=None, killed_by="memory_bytes")
    ending = ProgramEnding(outcome=outcome, text="", refused=None)
    assert ending.has_cause_of_its_own
    refusal = ending.failure("packages_unresolved", "The index can't be read")
    assert refusal.reason == "The index can't be read: it was ended at its limit of memory_bytes."
