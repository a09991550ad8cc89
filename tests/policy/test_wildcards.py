"""Patterns in which `*` stands for any characters."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from gloveport.policy.wildcards import matches

FEW = st.text(alphabet="ab*.[", max_size=8)


@given(pattern=FEW, text=st.text(alphabet="ab.[\n", max_size=8))
def test_a_pattern_means_what_the_expression_of_the_same_meaning_does(pattern, text):
    """H5: names and wildcards."""
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(pattern, text) is (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_case_counts():
    assert not matches("Read*", "read_file")


def test_a_hostile_name_takes_no_time():
    began = time.monotonic()
    assert not matches("*a" * 60 + "*b", "a" * 1_000_000 + "c")
    assert time.monotonic() - began < 10
