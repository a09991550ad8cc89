"""W3: lines that are not replaced stay byte for byte, with marks and endings."""

import tracemalloc
from collections import Counter
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.patch_text.patch_error import PatchError
from gloveport.patch_text.text import (
    FileText,
    Splice,
    count_changed_lines,
    count_lines,
    count_ranges,
    difference,
    ranges,
)


def spliced(content: bytes, *splices: Splice) -> bytes:
    return FileText.decode(content, "f").apply(splices)


@for_each(
    "before, splice, after",
    [
        (b"a\nb\n", Splice(1, 2, ("B", "C")), b"a\nB\nC\n"),
        (b"a\r\nb\r\n", Splice(1, 2, ("B",)), b"a\r\nB\r\n"),
        (b"a\r\nb\r\nc\n", Splice(2, 3, ("C",)), b"a\r\nb\r\nC\r\n"),
        (b"a\r\nb\nc\n", Splice(1, 2, ("B",)), b"a\r\nB\nc\n"),
        (b"a\nb", Splice(2, 2, ("c",)), b"a\nb\nc"),
        (b"a\r\nb", Splice(2, 2, ("c",)), b"a\r\nb\r\nc"),
        (b"a\r\nb", Splice(1, 2, ("c",)), b"a\r\nc"),
        (b"a\nb", Splice(1, 2, ()), b"a"),
        (b"a", Splice(0, 1, ()), b""),
        (b"", Splice(0, 0, ("a",)), b"a\n"),
        (b"a\n", Splice(0, 1, ()), b""),
        (b"\n\n", Splice(1, 1, ("a",)), b"\na\n\n"),
        (b"\xef\xbb\xbfa\nb\n", Splice(0, 1, ("A",)), b"\xef\xbb\xbfA\nb\n"),
        (b"a\rb\nc\x0bd\xc2\x85e\n", Splice(1, 2, ("C",)), b"a\rb\nC\n"),
    ],
)
def test_marks_and_endings_are_kept(before, splice, after):
    assert spliced(before, splice) == after


@given(st.text(alphabet="ab\r\n\ufeff").map(str.encode))
def test_a_text_that_nothing_is_done_to_is_the_same_bytes(content):
    assert spliced(content) == content


@given(st.text(alphabet="ab\r\n").filter(lambda text: not text.endswith("\r")).map(str.encode), st.data())
def test_lines_outside_of_a_splice_stay(content, data):
    total = len(FileText.decode(content, "f").lines())
    start = data.draw(st.integers(0, total))
    end = data.draw(st.integers(start, total))
    after = spliced(content, Splice(start, end, ("x",)))
    lines = FileText.decode(content, "f").lines()
    assert FileText.decode(after, "f").lines() == (*lines[:start], "x", *lines[end:])


def test_what_is_not_utf_8_is_refused():
    with pytest.raises(PatchError) as refusal:
        FileText.decode(b"a\n\xff", "f")
    assert (refusal.value.code, refusal.value.details["offset"]) == ("UNSUPPORTED_ENCODING", 2)


def test_a_file_of_too_many_lines_is_refused():
    with pytest.raises(PatchError, match="more than"):
        FileText.decode(b"\n" * 1_000_001, "f")


def test_ranges_tell_where_lines_are_afterwards():
    assert ranges([Splice(1, 2, ("a", "b")), Splice(3, 4, ()), Splice(5, 5, ("c",))]) == [
        {"start_line": 2, "end_line": 3, "added_lines": 2, "removed_lines": 1},
        {"start_line": 5, "end_line": 4, "added_lines": 0, "removed_lines": 1},
        {"start_line": 6, "end_line": 6, "added_lines": 1, "removed_lines": 0},
    ]


def test_a_difference_is_one_range():
    assert difference(b"a\nb\nc\n", b"a\nX\nY\nc\n") == [
        {"start_line": 2, "end_line": 3, "added_lines": 2, "removed_lines": 1}
    ]
    assert difference(b"a", b"a") == []
    assert difference(b"", b"a\nb") == [{"start_line": 1, "end_line": 2, "added_lines": 2, "removed_lines": 0}]
    assert difference(b"a\na\n", b"a\n") == [{"start_line": 2, "end_line": 1, "added_lines": 0, "removed_lines": 1}]


_TEXTS = st.text(alphabet="ab\n").map(str.encode)


@given(_TEXTS, _TEXTS, _TEXTS, _TEXTS)
def test_a_difference_leaves_out_exactly_the_lines_with_which_both_begin_and_end(head, old, new, tail):
    before, after = head + old + tail, head + new + tail
    found = difference(before, after)
    old_lines, new_lines = list(BytesIO(before)), list(BytesIO(after))
    for each in found:
        start, removed, added = each["start_line"] - 1, each["removed_lines"], each["added_lines"]
        assert each["end_line"] == start + added
        assert old_lines[:start] == new_lines[:start]
        assert old_lines[start + removed :] == new_lines[start + added :]
        old_lines, new_lines = old_lines[start : start + removed], new_lines[start : start + added]
        assert old_lines[:1] != new_lines[:1] or not old_lines
        assert old_lines[-1:] != new_lines[-1:] or not old_lines
    assert bool(found) == (before != after)
    added_lines, removed_lines = Counter(new_lines) - Counter(old_lines), Counter(old_lines) - Counter(new_lines)
    counts = (added_lines.total(), removed_lines.total()) if found else (0, 0)
    assert count_changed_lines(before, after) == counts


def test_of_much_that_differs_each_line_counts():
    before = b"".join(b"%d\n" % number for number in range(100_000))
    after = b"".join(b"%d\n" % number for number in reversed(range(100_000)))
    assert count_changed_lines(before, after) == (100_000, 100_000) == count_ranges(difference(before, after))
    assert count_changed_lines(b"a\nb\n", b"b\na\n") == (0, 0)


@for_each("compare", [difference, count_changed_lines])
def test_no_list_is_made_of_millions_of_lines(compare):
    """P38: it would be made at one go, while nobody else can do anything."""
    before = b"\n" * (16 << 20)
    tracemalloc.start()
    try:
        compare(before, b"x\n")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_the_last_line_counts_without_an_ending_too():
    assert [count_lines(content) for content in (b"", b"\n", b"a", b"a\n", b"a\nb")] == [0, 1, 1, 1, 2]
