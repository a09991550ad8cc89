"""What is remembered of runs, from which skills are saved: bounded, and nobody drives out another's."""

import pytest

from gloveport.engine.recent_runs import RecentRun, RecentRuns
from gloveport.model import Output, Request, Result
from gloveport.policy.decisions.skill_grant import UsedRight


def run_of(owner, number, *, code="1", stderr="", used=()):
    result = Result(run_id=f"{owner}-{number}", language="python", status="ok", stderr=Output(text=stderr))
    request = Request(language="python", code=code)
    return RecentRun(owner=owner, request=request, result=result, used=frozenset(used), mounts=())


def test_who_runs_much_drives_out_no_run_of_another():
    recent = RecentRuns()
    recent.add(run_of("me", 0))
    for number in range(300):
        recent.add(run_of("you", number))
    assert recent.find("me-0", "me") is not None
    assert recent.find("you-0", "you") is None
    assert recent.find("you-299", "you") is not None
    assert recent.find("you-299", "me") is None


@pytest.mark.parametrize(
    "large",
    [
        {"code": "#" * (4 << 20)},
        {"stderr": "x" * (4 << 20)},
        {"used": [UsedRight("fetch", "api.example", "GET", f"/{number:04}{'x' * 8192}") for number in range(512)]},
    ],
    ids=["code", "output", "rights"],
)
def test_whatever_is_large_in_a_run_counts(large):
    """P8: a run uses up to 512 rights, each with a path of thousands of characters."""
    recent = RecentRuns()
    for number in range(20):
        recent.add(run_of("you", number, **large))
    remembered = [number for number in range(20) if recent.find(f"you-{number}", "you") is not None]
    assert remembered == list(range(20 - len(remembered), 20))
    assert 0 < len(remembered) < 9
