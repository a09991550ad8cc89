"""What is said where a program of a build fails."""

from gloveport.engine.build_sandboxes import ProgramEnding
from gloveport.sandbox.base import Outcome


def test_a_full_disk_is_not_taken_for_packages_that_do_not_fit_together():
    outcome = Outcome(
        exit_code=1,
        killed_by=None,
        report=None,
        wall_seconds=1,
        cpu_seconds=None,
        peak_memory_bytes=None,
        refused_forks=None,
    )
    text = "error: failed to write to file `/opt/x`: No space left on device (os error 28)"
    ending = ProgramEnding(outcome=outcome, text=text, refused=None)
    assert ending.has_cause_of_its_own
    refusal = ending.failure("packages_unresolved", "There are no versions that fit together")
    assert refusal.reason == f"There is no room: {text}"
    assert refusal.hint == "make room on the disk of the state directory"
