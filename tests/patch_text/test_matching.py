"""W3: a hunk has one place, found by three grades, in bounded time."""

import time

import pytest
from tests.cases import for_each

from gloveport.patch_text.matching import place_hunks
from gloveport.patch_text.parsing import parse_patch
from gloveport.patch_text.patch_error import PatchError
from gloveport.patch_text.text import Splice


def placed(body: str, *lines: str):
    (update,) = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    return place_hunks(update.hunks, lines, "f")


def result(body: str, *lines: str) -> list[str]:
    after = list(lines)
    for splice in reversed(placed(body, *lines).splices):
        after[splice.start : splice.end] = splice.lines
    return after


def refused(body: str, *lines: str) -> PatchError:
    with pytest.raises(PatchError) as refusal:
        placed(body, *lines)
    return refusal.value


def test_lines_are_replaced_where_they_stand():
    found = placed("@@\n a\n-b\n+B\n c\n-d\n@@\n-f\n+F\n+G", *"abcdef")
    assert found.splices == (Splice(1, 2, ("B",)), Splice(3, 4, ()), Splice(5, 6, ("F", "G")))
    assert (found.grade, found.warnings) == ("exact", ())


def test_a_stricter_grade_wins_over_a_place_that_comes_first():
    assert result("-a \n+X", "a", "a ", "a") == ["a", "X", "a"]


@for_each(
    "body, lines, after, grade",
    [
        (" a\n-b\n+B", ["a  ", "b\t"], ["a  ", "B"], "trailing_ws"),
        (
            " if a:\n-  b\n+  B\n+    x\n+",
            ["  if a:", "    b", "    c"],
            ["  if a:", "    B", "      x", "", "    c"],
            "indent",
        ),
        ("     a\n-    b\n+    B", ["  a", "  b"], ["  a", "  B"], "indent"),
        ("     a\n-    b\n+    B\n+        C", ["\ta", "\tb"], ["\ta", "\tB", "\t    C"], "indent"),
        ("   a\n \n-  b\n+  B\n+c", ["    a", "", "    b"], ["    a", "", "    B", "  c"], "indent"),
    ],
)
def test_blanks_that_differ_are_forgiven_and_told(body, lines, after, grade):
    found = placed(body, *lines)
    assert result(body, *lines) == after
    assert found.grade == grade
    assert len(found.warnings) == 1


def test_indentation_that_differs_from_line_to_line_is_no_match():
    assert refused(" a\n-b", "  a", "    b").code == "PATCH_CONTEXT_NOT_FOUND"


def test_hunks_come_in_the_order_of_the_file():
    assert result("-a\n+1\n@@\n-b\n+2", "a", "b") == ["1", "2"]
    error = refused("-b\n+2\n@@\n-a\n+1", "a", "b")
    assert (error.code, error.details["hunk_index"]) == ("PATCH_CONTEXT_NOT_FOUND", 1)


def test_an_anchor_moves_the_search_forward():
    lines = ["class A:", "  def f():", "    x", "class B:", "  def f():", "    x"]
    assert result("@@ class B: @@\n@@   def f():\n-    x\n+    y", *lines) == [*lines[:5], "    y"]
    assert result("@@ def f():\n@@ class B:\n-    x\n+    y", *lines) == [*lines[:5], "    y"]
    error = refused("@@ class C:\n-    x\n+    y", *lines)
    assert (error.code, error.details["scope"]) == ("PATCH_CONTEXT_NOT_FOUND", "class C:")


def test_added_lines_with_nothing_around_go_to_the_end_of_the_file():
    assert result("@@ a\n+x\n+y", "a", "b") == ["a", "b", "x", "y"]
    assert result("+x\n@@\n-a\n+A\n@@\n+y\n", "a", "b") == ["A", "b", "x", "y"]
    assert result("-b\n+B\n@@\n+y", "a", "b") == ["a", "B", "y"]
    assert refused("@@ z\n+x", "a").code == "PATCH_CONTEXT_NOT_FOUND"


def test_two_places_are_too_many():
    error = refused(" x\n-y\n+z", *"xyxyxy")
    assert error.code == "PATCH_CONTEXT_AMBIGUOUS"
    assert (error.details["match_count"], error.details["candidate_lines"]) == (3, [1, 3, 5])
    assert error.details["candidates"][1]["line"] == 3
    assert len(refused("-y", *"y" * 100).details["candidate_lines"]) == 8


def test_a_hunk_of_the_end_of_the_file_is_placed_there():
    assert result("-y\n+z\n*** End of File", *"xyxy") == [*"xyxz"]
    assert result("-x\n+z\n*** End of File", *"xy") == [*"zy"]
    assert refused("-x\n+z\n*** End of File", *"xyxy").code == "PATCH_CONTEXT_AMBIGUOUS"


@pytest.mark.parametrize("body", ["-X\n-Y\n+a\n+b", " a\n-X\n+b\n c", "-X\n-Y\n+a  \n+b"])
def test_a_hunk_that_is_there_already_is_skipped_and_told(body):
    found = placed(body, *"abc")
    assert found.splices == ()
    assert found.splices == ()
    assert "already" in found.warnings[0]


@pytest.mark.parametrize(
    ("body", "lines"),
    [("-X\n+a", "abc"), (" a\n-X\n+b", "abab"), ("-X\n+\n+", ["", ""]), ("-a\n b\n+a\n", "xb")],
)
def test_what_proves_too_little_is_not_taken_as_there_already(body, lines):
    assert refused(body, *lines).code == "PATCH_CONTEXT_NOT_FOUND"


def test_empty_lines_before_the_next_operation_are_context_only_where_the_file_has_them():
    assert result("-a\n+A\n\n", "a", "b") == ["A", "b"]
    assert result("-a\n+A\n", "a", "b", "a", "") == ["a", "b", "A", ""]


def test_a_hunk_that_is_lost_is_told_what_is_near():
    lines = [f"line {number}" for number in range(100)]
    error = refused(" line 50\n line 51\n-LINE 52\n line 53", *lines)
    assert (error.details["nearest_line"], error.details["nearest_matching_lines"]) == (51, 3)
    assert "51: line 50\n" in error.details["nearby_text"]
    assert len(refused("-x", *["é" * 5000] * 20).details["nearby_text"].encode()) <= 800
    assert refused("-x").details["nearest_line"] == 1


def test_of_a_line_that_is_nowhere_the_one_with_most_of_its_words_is_near():
    lines = [f"    total_{number} = price * {number}" for number in range(100)]
    assert refused("-total_70 = prize * 70", *lines).details["nearest_line"] == 71
    assert refused("-total_70", *lines).details["nearest_line"] == 71, "a part of a line"
    assert refused("-zebra", *lines).details["nearest_line"] == 1
    assert refused("-total_70", *lines * 10_000).details["nearest_line"] == 71


@for_each(
    "body, lines",
    [
        ("\n".join(f"@@\n-{number}\n+x" for number in range(25_000)), [*map(str, range(225_000)), *["y"] * 12_500]),
        (" " + "\n ".join(["a"] * 5000) + "\n-b", ["a"] * 225_000),
        (" " + "\n  ".join(["a"] * 5000) + "\n-b", ["    a"] * 225_000),
        ("@@ a\n" * 25_000 + "-b", ["a"] * 225_000),
        ("-" + " \t" * 250_000 + "b", ["\t " * 125_000 + "b"] * 8),
        ("\n".join(["@@\n-a\n-a\n-b\n+x"] * 12_500), ["a", "a", "c"] * 75_000 + ["a", "a", "b"]),
    ],
)
def test_a_hostile_patch_ends_within_seconds(body, lines):
    began = time.process_time()
    assert refused(body, *lines).code in {"PATCH_FAILED", "PATCH_CONTEXT_NOT_FOUND", "PATCH_CONTEXT_AMBIGUOUS"}
    assert time.process_time() - began < 8
