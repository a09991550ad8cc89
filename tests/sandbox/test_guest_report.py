"""What a guest reports as the value of a program: hostile JSON that was parsed, and is to be written as JSON again."""

import json

import pytest

from gloveport.sandbox.run.frames import parse
from gloveport.sandbox.run.guest_report import bound_value

DEEP = 190  # nested as deeply as a frame may be, about


@pytest.mark.parametrize("text", ["1e16", "5e-324", "-0.0", "1" * 4300, '"\\u00e9\\u0000\\ud83d\\ude00"', "[[], {}]"])
@pytest.mark.parametrize("depth", [0, DEEP])
def test_a_value_is_told_as_it_was_reported(text, depth):
    nested = "[" * depth + text + "]" * depth
    report = parse(f'{{"value": {nested}}}'.encode())
    assert repr(bound_value(report, 1 << 20)) == repr({"value": json.loads(nested)})


def test_a_number_beyond_every_float_becomes_null():
    report = parse(b'{"value": %s1e999%s}' % (b"[" * DEEP, b"]" * DEEP))
    assert json.dumps(bound_value(report, 1 << 20)["value"]) == "[" * DEEP + "null" + "]" * DEEP


def test_a_value_that_is_larger_than_an_honest_guests_is_left_out():
    report = {"value": "é" * 100, "value_truncated": False}
    assert bound_value(report, 100) == report  # 202 bytes, quoted
    assert bound_value(report, 99) == {"value": None, "value_truncated": True}
