"""H1, P14: what is wrong is told as far as anybody reads it."""

import pytest
from pydantic import TypeAdapter, ValidationError

from gloveport.limits.faults import first_faults


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
