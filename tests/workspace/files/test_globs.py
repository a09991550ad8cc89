"""Patterns for paths: what they match, and that none of them explodes."""

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.workspace.files.globs import gitignore_regex, listing_regex

HOSTILE = [
    "*a" * 100 + "b",
    "a*" * 200 + "b",
    "*" * 300 + "b",
    "?*" * 200 + "b",
    "**/a*/" * 60 + "b",
    "[a]*" * 100 + "b",
]


@for_each(
    "pattern, matches, others",
    [
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ax/b", "a/xb", "b"]),
        ("**/b", ["b", "x/y/b"], ["xb", "b/x"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab"]),
        ("a/**/b/**/b", ["a/b/b", "a/x/b/y/b"], ["a/b"]),
        ("a/*", ["a/b"], ["a/b/c", "a"]),
        ("*a*b*c", ["xxaybzc", "abc", "aabbcc"], ["xxaybz", "acb", "a/bc"]),
        ("a**b", ["axxb", "ab"], ["a/b"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[a-c]x", ["bx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx"], ["bx", "/x"]),
        ("[]-]x", ["]x", "-x"], ["x"]),
        ("[z-a]", [], ["z", "a", "-"]),
        ("[", ["["], ["a"]),
        (r"\*\?\[", ["*?["], ["abc"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_patterns_of_a_gitignore(pattern, matches, others):
    """W1: as git reads them."""
    expression = re.compile(gitignore_regex(pattern))
    assert [path for path in matches + others if expression.fullmatch(path)] == matches


@for_each(
    "pattern, matches, others",
    [
        ("a*", ["a/2", "a-b/1", "abc", "x/a"], ["x", "ba"]),
        ("*.py", ["a.py", "a/b/c.py"], ["a.pyc"]),
        ("src/*.py", ["src/a.py", "src/a/b.py", "x/src/a.py"], ["srcs/a.py"]),
        ("b/c.py", ["b/c.py", "a/b/c.py"], ["ab/c.py"]),
        ("**/2", ["2", "a/2"], ["12"]),
        ("src/**/x.py", ["src/x.py", "src/a/b/x.py"], ["srcs/x.py", "src/ax.py"]),
        ("a", ["a", "b/a"], ["a/2"]),
    ],
)
def test_patterns_of_list_files(pattern, matches, others):
    """W1: as coding-tools-mcp reads them, and ``**/`` as everybody does."""
    expression = re.compile(listing_regex(pattern))
    assert [path for path in matches + others if expression.fullmatch(f"/{path}")] == matches


@for_each("pattern", HOSTILE)
@for_each("text", ["a" * 4000, "a/" * 2000, "ab" * 2000])
def test_no_pattern_explodes(pattern, text):
    """CT-R6: with a star that tries every way, this test does not end."""
    assert not re.fullmatch(gitignore_regex(pattern), text + "c")
    assert not re.fullmatch(listing_regex(pattern), f"/{text}c")


@given(st.text(st.sampled_from("ab*?[]!^-/\\|&~#.é\n"), max_size=30))
def test_any_text_is_a_pattern(pattern):
    """CT-R6: what is wrong in it stands for itself."""
    re.compile(gitignore_regex(pattern)).fullmatch("a/b")
    re.compile(listing_regex(pattern)).fullmatch("/a/b")
