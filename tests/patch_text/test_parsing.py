"""W3: a patch in the V4A dialect, and everything that is none."""

import pytest
from tests.cases import for_each

from gloveport.patch_text.parsing import Add, Delete, Hunk, Update, parse_patch
from gloveport.patch_text.patch_error import PatchError


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def test_every_kind_of_operation_is_read():
    assert parse_patch(
        patch(
            "*** Add File: a b.txt",
            "+one",
            "+",
            "",
            "*** Delete File: old",
            "*** Update File: c",
            "*** Move to: d/e",
            "@@ class X: @@",
            "@@ def f(self):",
            " context",
            "-gone",
            "+come",
            "",
            "@@ -1,2 +3 @@ def g",
            "-x",
            "*** End of File",
        )
    ) == (
        Add("a b.txt", ("one", "")),
        Delete("old"),
        Update(
            "c",
            "d/e",
            (
                Hunk(
                    ("class X:", "def f(self):"),
                    ((" ", "context"), ("-", "gone"), ("+", "come"), ("", "")),
                    at_end=False,
                ),
                Hunk((), (("-", "x"),), at_end=True),
            ),
        ),
    )


def test_a_patch_with_windows_line_ends_and_blank_lines_around_is_the_same_patch():
    plain = patch("*** Add File: a", "+x")
    windows = "\r\n \r\n" + plain.replace("\n", "\r\n") + "\r\n\r\n"
    assert parse_patch(windows) == parse_patch(plain) == (Add("a", ("x",)),)


def test_the_first_hunk_needs_no_mark_and_an_update_needs_no_hunk():
    assert parse_patch(patch("*** Update File: a", "-x", "*** Update File: b")) == (
        Update("a", None, (Hunk((), (("-", "x"),), at_end=False),)),
        Update("b", None, ()),
    )


@for_each(
    "text",
    [
        "",
        "*** Begin Patch",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\n\n\n*** End Patch",
        "*** Add File: a\n+x",
        patch("hello"),
        patch("*** Rename File: a"),
        patch("*** Add File: "),
        patch("*** Add File: a", "x"),
        patch("*** Add File: a", "+x", "", "+y"),
        patch("*** Delete File: a", "-x"),
        patch("*** Update File: a", "@@", "!x"),
        patch("*** Update File: a", "\u00a0x"),
        patch("*** Update File: a", "@@ anchor"),
        patch("*** Update File: a", "*** End of File"),
        patch("*** Update File: a", "-x", "*** Move to: b"),
        patch("*** Update File: a", "@@", "", "@@", "-x"),
        patch(*(f"*** Delete File: {number}" for number in range(201))),
        "*** Begin Patch\n" + "x" * (4 << 20) + "\n*** End Patch",
    ],
)
def test_what_the_grammar_has_no_place_for_is_refused(text):
    with pytest.raises(PatchError) as refusal:
        parse_patch(text)
    assert refusal.value.code == "PATCH_FAILED"


def test_a_refusal_names_the_line():
    with pytest.raises(PatchError) as refusal:
        parse_patch(patch("*** Add File: a", "+x", "*** Update File: b", "@@", " a", "oops"))
    assert refusal.value.details["line"] == 7
