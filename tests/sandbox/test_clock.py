"""H8: the clock of a run stands while the run waits for a person."""

import time

from gloveport.sandbox.clock import Clock


def test_a_clock_counts_on_after_it_has_stood_from_where_it_stood():
    clock = Clock()
    before = clock.seconds
    with clock.stopped():
        stood = clock.seconds
        deadline = time.monotonic() + 0.02
        while time.monotonic() < deadline:
            assert clock.stands
            assert clock.seconds == stood
    assert before <= stood <= clock.seconds < 0.02 + stood
    assert not clock.stands


def test_a_clock_goes_on_when_the_last_of_those_who_stopped_it_leaves():
    clock = Clock()
    with clock.stopped():
        with clock.stopped():
            pass
        assert clock.stands
    assert not clock.stands


def test_a_clock_that_is_started_anew_has_counted_nothing():
    clock = Clock()
    with clock.stopped():
        pass
    time.sleep(0.001)
    old = clock.seconds
    clock.restart()
    assert clock.seconds < old
