"""SEARCH and REPLACE: exact, whatever the text is made of, and all or nothing."""

import pytest

from gloveport.errors import Denied
from gloveport.skills.search_replace import apply_blocks, parse_blocks

TEXT = "one\nprice = 3\nthree\n"


def patch(*pairs, end="\n"):
    lines = [("<<<<<<< SEARCH", *search, "=======", *replace, ">>>>>>> REPLACE") for search, replace in pairs]
    return "".join(f"{line}{end}" for block in lines for line in block)


def test_blocks_replace_what_they_find():
    blocks = parse_blocks("\n" + patch((["one"], ["1", "and"]), (["three"], [])))
    assert apply_blocks(TEXT, blocks) == "1\nand\nprice = 3\n"


def test_no_character_means_anything_but_itself():
    replaced = apply_blocks("a.b*$1\n", parse_blocks(patch((["a.b*$1"], ["$& $1 \\1 \\g<0> $$"]))))
    assert replaced == "$& $1 \\1 \\g<0> $$\n"


def test_line_ends_of_the_text_stay_as_they_are():
    crlf = TEXT.replace("\n", "\r\n")
    for end in ("\n", "\r\n"):
        blocks = parse_blocks(patch((["price = 3"], ["price = 4", "tax = 1"]), end=end))
        assert apply_blocks(crlf, blocks) == "one\r\nprice = 4\r\ntax = 1\r\nthree\r\n", end
        assert apply_blocks(TEXT, blocks) == "one\nprice = 4\ntax = 1\nthree\n", end
    assert apply_blocks("a\nb", parse_blocks(patch((["b"], ["c"])))) == "a\nc"


def test_a_deletion_in_its_natural_form_merges_no_blocks():
    text = apply_blocks(TEXT, parse_blocks(patch((["one"], []), (["three"], ["3"]))))
    assert text == "price = 3\n3\n"


def test_what_is_not_there_once_or_has_another_shape_changes_nothing():
    for wrong in (
        "",
        "x",
        patch((["one"], ["1"])) + "more",
        "<<<<<<< SEARCH\none\n",
        patch(([], ["x"])),
        patch(([" "], [])),
        patch((["one"], ["1"])) * 101,  # each looks through the whole program
    ):
        with pytest.raises(Denied, match="can't be read"):
            parse_blocks(wrong)
    for search in (["two"], ["one", "three"]):
        with pytest.raises(Denied, match="could not be found") as caught:
            apply_blocks(TEXT, parse_blocks(patch((["one"], ["1"]), (search, []))))
        assert "2: price = 3" in caught.value.hint, "not every client can read a skill"
    with pytest.raises(Denied, match="stands there 2 times"):
        apply_blocks("a\na\n", parse_blocks(patch((["a"], ["b"]))))
