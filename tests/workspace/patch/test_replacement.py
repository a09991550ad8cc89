"""W4: one text in place of another, wherever in its lines."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.patch_text.text import FileText, ranges
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.changes import Replacement
from gloveport.workspace.patch.file_swap import MAX_BYTES
from gloveport.workspace.patch.operations import MAX_PLACES, replace_text

TEXTS = st.text(alphabet="ab\n", max_size=12)


def replaced(content, old, new, *, everywhere=False):
    """The bytes of a file after the replacement, and what it came to."""
    asked = Replacement(path="a", old_string=old, new_string=new, replace_all=everywhere)
    done = replace_text(FileText.decode(content, "a"), asked, "a")
    return done.text.apply(done.splices), done


def refused(content, old, new, *, everywhere=False):
    with pytest.raises(WorkspaceError) as caught:
        replaced(content, old, new, everywhere=everywhere)
    return caught.value


@given(TEXTS, TEXTS.filter(bool), TEXTS)
def test_all_places_are_replaced_as_a_text_is(content, old, new):
    if old in content and old != new:
        after, done = replaced(content.encode(), old, new, everywhere=True)
        assert after.decode() == content.replace(old, new)
        assert done.count == content.count(old)


@given(TEXTS, TEXTS.filter(bool), TEXTS)
def test_lines_of_windows_stay_so(content, old, new):
    """All lines end with CR LF, those that come too, however the texts are written."""
    ends = content.replace("\n", "\r\n")
    if old in content and old != new and content.count("\n") > 0 and content.endswith("\n"):
        expected = content.replace(old, new)
        after, _ = replaced(ends.encode(), old, new, everywhere=True)
        assert after.decode() == expected.replace("\n", "\r\n")


@given(TEXTS, TEXTS.filter(bool), TEXTS)
def test_no_line_is_touched_that_holds_nothing_of_it(content, old, new):
    if old in content and old != new:
        _, done = replaced(content.encode(), old, new, everywhere=True)
        lines = content.split("\n")
        joined = {line for splice in done.splices for line in range(splice.start, splice.end)}
        assert len(joined) <= content.count(old) * (old.count("\n") + 2)
        assert all(splice.end <= len(lines) for splice in done.splices)
        assert [(one.start, one.end) for one in done.splices] == sorted((one.start, one.end) for one in done.splices)


def test_lines_around_keep_their_bytes():
    content = b"\xef\xbb\xbfone\r\ntwo\nthree \t\r\nfour\x0b\nfive"
    after, done = replaced(content, "two", "zwei\ndrei")
    assert after == b"\xef\xbb\xbfone\r\nzwei\ndrei\nthree \t\r\nfour\x0b\nfive"
    assert ranges(done.splices) == [{"start_line": 2, "end_line": 3, "added_lines": 2, "removed_lines": 1}]


def test_the_last_line_gets_an_ending_and_loses_it_as_the_texts_say():
    assert replaced(b"a\nb", "b", "c\n")[0] == b"a\nc\n"
    assert replaced(b"a\nb\n", "b\n", "c")[0] == b"a\nc"
    assert replaced(b"a\nb\n", "\nb\n", "")[0] == b"a"
    assert replaced(b"a\r\nb\r\n", "b\r\n", "c")[0] == b"a\r\nc"
    assert replaced(b"a\n", "a\n", "")[0] == b""


def test_what_stands_there_twice_is_not_guessed():
    error = refused(b"a = 1\nb = 1\nc = 1\n", "= 1", "= 2")
    assert error.code == "PATCH_CONTEXT_AMBIGUOUS"
    assert (error.details["match_count"], error.details["candidate_lines"]) == (3, [1, 2, 3])
    assert "1: a = 1" in str(error.details["candidates"])
    assert "replace_all" in error.hint


def test_what_is_not_there_is_shown_where_it_almost_is():
    error = refused(b"x\n" * 40 + b"def f():\n\treturn 1\n", "def f():\n    return 1", "")
    assert error.code == "PATCH_CONTEXT_NOT_FOUND"
    assert error.details["nearest_line"] == 41
    assert "\treturn 1" in error.details["nearby_text"]


def test_nothing_for_nothing_is_refused():
    assert refused(b"a\n", "a", "a").code == "INVALID_ARGUMENT"
    assert refused(b"a\r\n", "a\r\n", "a\n").code == "INVALID_ARGUMENT"


def test_a_file_that_would_become_too_large_is_not_made():
    """P12: a few bytes of a request may not become gigabytes."""
    error = refused(b"a" * MAX_PLACES, "a", "b" * (MAX_BYTES // 1000), everywhere=True)
    assert (error.code, error.details["match_count"]) == ("PATCH_FAILED", MAX_PLACES)


def test_places_beyond_number_are_not_even_listed():
    """P12: of a file of 16 MiB each character may be one, and each number of a list takes more than that."""
    tracemalloc.start()
    try:
        error = refused(b"a" * (16 << 20), "a", "b", everywhere=True)
        assert (error.code, error.details["match_count"]) == ("PATCH_FAILED", 16 << 20)
        assert refused(b"a" * (16 << 20), "a", "b").details["match_count"] == 16 << 20
        assert tracemalloc.get_traced_memory()[1] < 160 << 20
    finally:
        tracemalloc.stop()


def test_many_places_cost_no_more_than_their_number():
    after, done = replaced(b"a\n" * MAX_PLACES, "\n", "", everywhere=True)
    assert (after, done.count, len(done.splices)) == (b"a" * MAX_PLACES, MAX_PLACES, 1)
