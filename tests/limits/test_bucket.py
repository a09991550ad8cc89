"""A2, H5: how often something may be done."""

from gloveport.limits.bucket import Bucket


class Time:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def test_a_full_bucket_gives_as_much_as_it_holds_and_then_says_how_long_to_wait():
    bucket = Bucket(capacity=3, seconds=60, now=Time())
    assert [bucket.take() for _ in range(3)] == [0, 0, 0]
    assert bucket.take() == 20


def test_a_bucket_fills_up_steadily_and_never_over():
    now = Time()
    bucket = Bucket(capacity=2, seconds=60, now=now)
    bucket.take(), bucket.take()
    now.seconds += 30
    assert bucket.take() == 0
    assert bucket.take() == 30
    now.seconds += 86_400
    assert [bucket.take() for _ in range(2)] == [0, 0]
    assert bucket.take() > 0


def test_what_is_known_only_afterwards_is_owed():
    now = Time()
    bucket = Bucket(capacity=60, seconds=60, now=now)
    assert bucket.take(0) == 0
    bucket.owe(90)
    assert bucket.take(0) == 31
    now.seconds += 31
    assert bucket.take(0) == 0


def test_who_is_refused_takes_nothing():
    now = Time()
    bucket = Bucket(capacity=1, seconds=10, now=now)
    bucket.take()
    for _ in range(100):
        bucket.take()
    now.seconds += 10
    assert bucket.take() == 0
