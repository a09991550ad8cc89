"""read_file: what of a text comes back, and that nothing else is kept."""

import hashlib
import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files import line_reader
from gloveport.workspace.files.line_reader import (
    MAX_FILE_BYTES,
    MAX_LINES,
    LineRange,
    TextRead,
    after_newline,
    count_lines,
    find_end,
    read_lines,
)

ONE_TREE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_file(tree, path, *, start_line=1, end_line=None, max_lines=None, **more) -> TextRead:
    end_line = find_end(start_line, end_line, max_lines)
    return read_lines(tree, path, LineRange(start_line=start_line, end_line=end_line, **more))


def refusal(tree, path, **arguments) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught:
        read_file(tree, path, **arguments)
    return caught.value


class TestTheAnswer:
    def test_it_has_every_field_of_the_schema(self, tree, root):
        """W1, CT-U6."""
        (root / "file").write_bytes(b"one\r\ntwo\nthree")
        answer = read_file(tree, "./file")
        assert answer == {
            "path": "file",
            "content": "one\r\ntwo\nthree",
            "encoding": "utf-8",
            "revision": hashlib.sha256(b"one\r\ntwo\nthree").hexdigest(),
            "revision_algorithm": "sha256",
            "max_bytes": 131_072,
            "start_line": 1,
            "end_line": 3,
            "total_lines": 3,
            "total_bytes": 14,
            "bytes_read": 14,
            "truncated": False,
            "truncated_by": None,
            "first_line_exceeds_limit": False,
            "output_lines": 3,
            "output_bytes": 14,
            "next_start_line": None,
            "warnings": [],
        }
        assert answer.keys() == TextRead.__required_keys__

    @pytest.mark.parametrize(
        ("content", "lines"), [(b"", 0), (b"x", 1), (b"x\n", 1), (b"\n", 1), (b"\n\n", 2), (b"line\n" * 100, 100)]
    )
    def test_a_hundred_lines_are_a_hundred_lines(self, tree, root, content, lines):
        """CT-U7."""
        (root / "file").write_bytes(content)
        answer = read_file(tree, "file")
        assert (answer["output_lines"], answer["total_lines"], answer["end_line"]) == (lines, lines, lines)
        assert count_lines(content) == lines

    def test_a_link_inside_is_answered_with_what_it_leads_to(self, tree, root):
        """W2."""
        (root / "file").touch()
        (root / "link").symlink_to("file")
        assert read_file(tree, "link")["path"] == "file"

    def test_the_chosen_lines_come_back_and_the_revision_is_of_the_whole_file(self, tree, root):
        """W1."""
        (root / "file").write_text("".join(f"{number}\n" for number in range(1, 11)))
        for arguments in ({"end_line": 4}, {"max_lines": 2}, {"end_line": 4, "max_lines": 2}):
            answer = read_file(tree, "file", start_line=3, **arguments)
            assert (answer["content"], answer["start_line"], answer["end_line"]) == ("3\n4\n", 3, 4)
            assert (answer["truncated"], answer["next_start_line"]) == (False, None)
            assert answer["revision"] == hashlib.sha256((root / "file").read_bytes()).hexdigest()
        assert refusal(tree, "file", end_line=4, max_lines=2).code == "INVALID_ARGUMENT"

    def test_lines_past_the_end_are_none_and_the_answer_says_so(self, tree, root):
        """W1."""
        (root / "file").write_text("1\n2\n")
        answer = read_file(tree, "file", start_line=9)
        assert (answer["content"], answer["output_lines"], answer["end_line"]) == ("", 0, 2)
        assert "2 lines" in answer["warnings"][0]
        answer = read_file(tree, "file", start_line=2, end_line=1)
        assert (answer["content"], answer["truncated"]) == ("", False)


class TestTruncation:
    def test_no_more_lines_than_one_answer_holds_and_the_next_call_goes_on(self, tree, root):
        """W1."""
        (root / "file").write_text("".join(f"{number}\n" for number in range(MAX_LINES + 5)))
        answer = read_file(tree, "file")
        assert (answer["output_lines"], answer["truncated_by"]) == (MAX_LINES, "lines")
        action = answer["next_action"]
        assert action == {
            "tool": "read_file",
            "arguments": {"path": "file", "start_line": MAX_LINES + 1, "max_bytes": 131_072},
        }
        rest = read_file(tree, **action["arguments"])
        assert answer["content"] + rest["content"] == (root / "file").read_text()
        assert rest["truncated_by"] is None

    def test_what_does_not_fit_is_left_out_by_whole_lines_so_that_nothing_is_lost(self, tree, root):
        """W1: a line that is cut in two could never be read to its end."""
        (root / "file").write_text("a\nbcd\ne\n")
        answer = read_file(tree, "file", max_bytes=4)
        assert (answer["content"], answer["truncated_by"], answer["next_start_line"]) == ("a\n", "bytes", 2)

    @pytest.mark.parametrize(("limit", "shown"), [(4, "éé"), (5, "éé"), (1, "")])
    def test_of_a_line_that_is_too_long_the_beginning_comes_back_and_no_half_of_a_character(
        self, tree, root, limit, shown
    ):
        """W1."""
        (root / "file").write_text("éééééé\nnext\n")
        answer = read_file(tree, "file", max_bytes=limit)
        assert (answer["content"], answer["first_line_exceeds_limit"]) == (shown, True)
        assert (answer["end_line"], answer["next_start_line"]) == (1, 2)

    @ONE_TREE
    @given(
        st.lists(st.text("aé\n\r", max_size=6), max_size=12).map("\n".join),
        st.integers(1, 10),
        st.none() | st.integers(1, 10),
        st.integers(1, 20),
    )
    def test_pieces_are_never_to_be_seen(self, tree, root, text, start, end, limit):
        """W1: any text, read in pieces of five bytes."""
        (root / "file").write_bytes(text.encode())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(line_reader, "_PIECE", 5)
            answer = read_file(tree, "file", start_line=start, end_line=end, max_bytes=limit)
        lines = [line.encode() + b"\n" for line in text.split("\n")]
        lines[-1] = lines[-1][:-1]
        lines = [line for line in lines if line]
        assert answer["total_lines"] == len(lines)
        expected = b""
        for number, line in enumerate(lines[start - 1 : end]):
            if len(expected) + len(line) > limit:
                assert answer["truncated_by"] == "bytes"
                if number == 0:
                    expected = line[:limit].decode(errors="ignore").encode()
                    assert answer["first_line_exceeds_limit"]
                break
            expected += line
        else:
            assert not answer["truncated"]
        assert answer["content"].encode() == expected

    @given(st.binary(max_size=50).map(lambda text: text.replace(b"a", b"\n")))
    def test_a_newline_is_found_by_its_number(self, text):
        """W1."""
        places = [place + 1 for place, byte in enumerate(text) if byte == 0x0A]
        assert [after_newline(text, number) for number in range(1, len(places) + 1)] == places


class TestWhatIsNoText:
    def test_a_binary_file_is_refused(self, tree, root):
        """W1."""
        (root / "file").write_bytes(b"text\0more")
        assert refusal(tree, "file").code == "BINARY_FILE"

    def test_lines_that_are_not_utf_8_are_refused_and_the_others_are_read(self, tree, root):
        """W1."""
        (root / "file").write_bytes(b"good\ncaf\xe9\n")
        assert refusal(tree, "file").code == "UNSUPPORTED_ENCODING"
        assert read_file(tree, "file", end_line=1)["content"] == "good\n"

    def test_directories_and_fifos_are_refused_at_once(self, tree, root):
        """CT-R5."""
        os.mkfifo(root / "fifo")
        assert refusal(tree, "fifo").code == "NOT_A_FILE"
        assert refusal(tree, ".").code == "IS_DIRECTORY"


class TestHugeFiles:
    def test_a_line_without_end_takes_no_memory(self, tree, root):
        """CT-R2: a sparse file is one line of NULs."""
        with (root / "file").open("wb") as file:
            file.write(b"a" * 5000)
            file.truncate(300 << 20)
        tracemalloc.start()
        try:
            answer = read_file(tree, "file", max_bytes=100)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
        finally:
            tracemalloc.stop()
        assert (answer["content"], answer["total_bytes"], answer["total_lines"]) == ("a" * 100, 300 << 20, 1)

    def test_lines_without_number_take_no_memory(self, tree, root):
        """CT-R2."""
        (root / "file").write_bytes(b"\n" * (8 << 20))
        tracemalloc.start()
        try:
            answer = read_file(tree, "file", start_line=7 << 20)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
        finally:
            tracemalloc.stop()
        assert (answer["output_lines"], answer["total_lines"]) == (MAX_LINES, 8 << 20)

    def test_a_file_that_would_take_hours_is_refused(self, tree, root):
        """CT-R2."""
        with (root / "file").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        assert refusal(tree, "file").code == "OUTPUT_TOO_LARGE"


def test_numbers_stand_before_lines_where_they_are_asked_for(tree, root):
    """W1: all else of the answer is as without them, so that edits fit."""
    (root / "file").write_bytes(b"one\r\n\ntwo\x0b\nthree")
    plain, numbered = (read_file(tree, "file", line_numbers=numbers) for numbers in (False, True))
    assert numbered["content"] == "1\tone\r\n2\t\n3\ttwo\x0b\n4\tthree"
    assert {**numbered, "content": ""} == {**plain, "content": ""}
    assert read_file(tree, "file", start_line=2, end_line=3, line_numbers=True)["content"] == "2\t\n3\ttwo\x0b\n"
    assert read_file(tree, "file", start_line=9, line_numbers=True)["content"] == ""
    page = read_file(tree, "file", max_bytes=6, line_numbers=True)
    assert page["next_action"]["arguments"] == {"path": "file", "start_line": 3, "max_bytes": 6, "line_numbers": True}
