"""P14: captured output: bounded, whole characters, harmless on a terminal, gone without a trace."""

import contextlib
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.sandbox.run.capture import Archive, Capture, plain


def capture(shown=100, stored=1000, directory=Path("/var/tmp"), **hooks):
    return contextlib.closing(Capture(shown_bytes=shown, stored_bytes=stored, directory=directory, **hooks))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"], max_codepoint=0xDFFFF)), st.integers(1, 7))
def test_output_that_fits_comes_back_whole_however_it_was_cut(text, size):
    """E2: UTF-8 is never split."""
    data = text.encode()
    with capture(shown=10_000, stored=10_000) as kept:
        heard = []
        kept.notify = heard.append
        for start in range(0, len(data), size):
            kept.write(data[start : start + size])
        output = kept.output("output://x", ansi="strip")
        assert (output.text, output.total_bytes, output.truncated) == (text, len(data), False)
        assert "".join(heard) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"], max_codepoint=0xDFFFF), min_size=60, max_size=300))
def test_head_and_tail_are_whole_characters_of_what_was_written(text):
    with capture(shown=50, stored=10_000) as kept:
        kept.write(text.encode())
        output = kept.output("output://x", ansi="strip")
        head, _, tail = output.text.split("\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert output.text.count("�") <= text.count("�")
        assert output.handle == "output://x"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"], max_codepoint=0xDFFFF), min_size=1, max_size=400))
def test_pages_put_together_are_the_whole(text):
    with capture(shown=10, stored=10_000) as kept:
        kept.write((text * 300).encode()[:9000])
        pages, offset = "", 0
        while offset is not None:
            page, offset = kept.page(offset)
            pages += page
        assert pages.encode().startswith((text * 300).encode()[:8990])


def test_behind_the_end_is_nothing_however_far():
    with capture(shown=10, stored=10_000) as kept:
        kept.write(b"x" * 1000)
        assert [kept.page(offset) for offset in (1000, 10**18, 10**30)] == [("", None)] * 3


def test_what_exceeds_the_budget_is_counted_and_dropped():
    with capture(shown=10, stored=100) as kept:
        kept.write(b"x" * 90)
        assert not kept.full()
        kept.write(b"y" * 50)
        assert kept.full()
        assert kept.total == 140
        assert kept.page(0) == ("x" * 90 + "y" * 10, None)


def test_a_full_disk_ends_the_budget_and_nothing_else(tmp_path, caplog):
    """E4: the spool's directory is gone, as with any failing disk: what was kept stays readable, the run has to end,
    and the operator is told why.
    """
    with capture(shown=10, stored=1000, directory=tmp_path / "missing") as kept:
        kept.write(b"x" * 5)
        kept.write(b"y" * 500)
        kept.write(b"z" * 500)
        assert kept.full()
        kept.output("output://x", ansi="strip")
    (record,) = caplog.records
    assert f"can't be stored in {tmp_path / 'missing'}: No such file or directory" in record.getMessage()


def test_large_output_lies_in_a_file_without_a_name(tmp_path):
    with capture(shown=10, stored=1000, directory=tmp_path) as kept:
        kept.write(b"x" * 500)
        assert list(tmp_path.iterdir()) == []
        assert kept.page(0) == ("x" * 500, None)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("a\x08b\x7f\x00c", "abc"),
        ("10%\r20%\r\ndone\tok\n", "10%\n20%\ndone\tok\n"),
        ("\x1bP1$r0m\x1b\\x", "x"),
        ("\x1b[", ""),
        ("\x1b", ""),
        ("if x: \u202e return\u2066 \u2069", "if x:  return "),
        ("a\U000e0068\U000e0069b\u200b\ufeff\U000e0100", "ab"),
        ("\U0001f468\u200d\U0001f469 \u2764\ufe0f", "\U0001f468\u200d\U0001f469 \u2764\ufe0f"),
    ],
)
def test_terminal_escapes_do_not_survive(raw, shown):
    """E2: no colour unless asked for; and nothing that could repaint the operator's terminal."""
    assert plain(raw) == shown


def test_escapes_are_kept_when_asked_for():
    with capture() as kept:
        kept.write(b"\x1b[31mred\x1b[0m")
        assert kept.output("output://x", ansi="keep").text == "\x1b[31mred\x1b[0m"


def test_what_was_in_memory_outlives_a_disk_that_takes_no_more():
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with capture(shown=4, stored=100) as kept:
        kept.write(b"abcd")
        resource.setrlimit(resource.RLIMIT_FSIZE, (2, most[1]))
        try:
            kept.write(b"efgh")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        assert (kept.full(), kept.page(0)) == (True, ("abcd", None))


def test_the_archive_keeps_the_latest():
    archive = Archive()
    for number in range(100):
        kept = Capture(shown_bytes=1, stored_bytes=10, directory=Path("/var/tmp"))
        kept.write(str(number).encode())
        archive.add(f"output://{number}", kept, "other" if number == 0 else "me")
    assert archive.page("output://99", "me", 0) == ("99", None)
    assert archive.page("output://1", "me", 0) is None
    assert archive.page("output://0", "other", 0) == ("0", None), "nobody drives out what others have"
    assert archive.page("output://99", "other", 0) is None
    archive.close()
    assert archive.page("output://99", "me", 0) is None
