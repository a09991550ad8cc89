"""H1, H5, P14: values of a JSON text are counted before anything is made of it, and few of its faults are told."""

import time

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.cases import for_each

from gloveport.limits.untrusted_json import count_values, first_faults, has_infinity, has_many_values

MANY = 300_000


@for_each(
    "text",
    [
        b"[" + b"[]," * MANY + b"0]",
        b'["' + b'","' * MANY + b'"]',
        b'["\\\\",' + b"[]," * MANY + b"0]",
        b'["\\\\\\"",' + b"[]," * MANY + b"0]",
        b"{" + b'"a":{},' * MANY,
        b'"' * 3_000_000 + b"," * MANY,
    ],
)
def test_many_values_are_seen_wherever_they_stand(text):
    """H1, H5."""
    assert has_many_values(text)


@pytest.mark.parametrize(
    "text",
    [b'["' + b",[{" * MANY + b'"]', b'["' + b'\\",' * MANY + b'"]', b'["' + b"\\\\" * MANY + b"," * MANY + b'"]'],
    ids=["marks", "escaped quotes", "backslashes"],
)
def test_text_of_any_length_is_one_value(text):
    """H2."""
    assert not has_many_values(text)
    assert count_values(text) == 1


@for_each("edge", range(-3, 4))
def test_nothing_depends_on_where_a_piece_ends(edge):
    """H1: a string, or an escape, on the border of two pieces."""
    text = b'["' + b"x" * ((1 << 16) - 5 + edge) + b'\\",\\\\",[' + b"1,1" + b"]]"
    assert count_values(text, 10) == 4


@for_each("unit", [b'"', b'"",', b'",",', b"\\", b'\\"', b"[", b'"a":"b",'])
def test_the_time_is_linear(unit):
    """H5: whatever 8 MiB hold."""
    text = unit * ((8 << 20) // len(unit)) + b"," * MANY
    began = time.process_time()
    has_many_values(text)
    assert time.process_time() - began < 2


def error_of(values):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[int]).validate_python(values)
    return caught.value


def test_the_first_ones_are_told_with_their_place():
    faults = first_faults(error_of([1, "a", 2, "b", "c"]), 2)
    assert [fault["loc"] for fault in faults] == [(1,), (3,)]
    assert "valid integer" in faults[0]["msg"]


def test_of_thousands_only_the_number_is_told():
    """To list them all would hold the event loop."""
    (fault,) = first_faults(error_of(["a"] * 50_000), 20)
    assert fault["msg"] == "50000 values are not as they should be"


def test_a_number_that_is_read_as_infinity_is_found_however_deep_it_is():
    deep: object = 1e999
    for _ in range(100_000):
        deep = [deep]
    assert has_infinity({"a": [1, {"b": float("nan")}]})
    assert has_infinity([1.5, deep])
    assert not has_infinity({"a": [1, 2.5, "1e999", None, True, 10**400]})
