"""H1, H5: how many values a JSON text has, before anything is made of it."""

import time

import pytest

from gloveport.limits.values import count_values, has_many_values

MANY = 300_000


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * MANY + b"0]",
        b'["' + b'","' * MANY + b'"]',
        b'["\\\\",' + b"[]," * MANY + b"0]",
        b'["\\\\\\"",' + b"[]," * MANY + b"0]",
        b"{" + b'"a":{},' * MANY,
        b'"' * 3_000_000 + b"," * MANY,
    ],
    ids=["lists", "strings", "a backslash at the end", "an escaped quote", "members", "no JSON"],
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


@pytest.mark.parametrize("edge", range(-3, 4))
def test_nothing_depends_on_where_a_piece_ends(edge):
    """H1: a string, or an escape, on the border of two pieces."""
    text = b'["' + b"x" * ((1 << 16) - 5 + edge) + b'\\",\\\\",[' + b"1,1" + b"]]"
    assert count_values(text, 10) == 4


@pytest.mark.parametrize("unit", [b'"', b'"",', b'",",', b"\\", b'\\"', b"[", b'"a":"b",'])
def test_the_time_is_linear(unit):
    """H5: whatever 8 MiB hold."""
    text = unit * ((8 << 20) // len(unit)) + b"," * MANY
    began = time.process_time()
    has_many_values(text)
    assert time.process_time() - began < 2
