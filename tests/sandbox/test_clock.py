"""H8: the clock of a run stands while the run waits for a person."""

import pytest

from gloveport.sandbox.clock import Clock


class Time:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def time():
    return Time()


def test_a_clock_counts_on_after_it_has_stood_from_where_it_stood(time):
    clock = Clock(now=time)
    time.seconds += 3
    with clock.pause():
        time.seconds += 1000
        assert clock.is_paused
        assert clock.seconds == 3
    assert not clock.is_paused
    time.seconds += 4
    assert clock.seconds == 7


def test_a_clock_goes_on_when_the_last_of_those_who_stopped_it_leaves(time):
    clock = Clock(now=time)
    with clock.pause():
        with clock.pause():
            time.seconds += 10
        assert clock.is_paused
        time.seconds += 10
    assert not clock.is_paused
    assert clock.seconds == 0


def test_a_clock_that_is_started_anew_has_counted_nothing(time):
    clock = Clock(now=time)
    with clock.pause():
        time.seconds += 10
    time.seconds += 5
    clock.restart()
    assert clock.seconds == 0
