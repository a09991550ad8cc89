"""Rules of .gitignore files, read without git."""

import os

import pytest

from gloveport.workspace.ignoring import MAX_BYTES, MAX_RULES, ignored, read_ignore


def kept(tree, root, rules: bytes, paths: str) -> str:
    """Of paths, those that the rules of the root do not ignore; what ends in ``/`` is a directory."""
    (root / ".gitignore").write_bytes(rules)
    ignore = read_ignore(tree, ".")
    assert ignore is not None

    def is_kept(path: str) -> bool:
        return not ignored([ignore], path.removesuffix("/").encode(), "directory" if path.endswith("/") else "file")

    return " ".join(filter(is_kept, paths.split()))


@pytest.mark.parametrize(
    ("rules", "paths", "left"),
    [
        (b"*.o\n!keep.o", "a.o keep.o d/a.o d/keep.o a.c", "keep.o d/keep.o a.c"),
        (b"!keep.o\n*.o", "keep.o", ""),
        (b"out/", "out out/ d/out/ d/out", "out d/out"),
        (b"/out", "out out/ d/out", "d/out"),
        (b"d/out", "d/out e/d/out out", "e/d/out out"),
        (b"**/d/out", "d/out e/d/out", ""),
        (b"d/**/out", "d/out d/e/out", ""),
        (b"log/*", "log/ log/a", "log/"),
        (b"# a\n\\#b\n\\!c\n", "a #b !c", "a"),
        (b"a  \nb\\ \n", "a b", "b"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "a b c", "c"),
        (b"\n/\n//\n", "a d/", "a d/"),
        (b"***/x", "x d/x", ""),
        (b"*", "a d/", ""),
    ],
)
def test_rules_mean_what_they_mean_to_git(tree, root, rules, paths, left):
    """CT-U12."""
    assert kept(tree, root, rules, paths) == left


def test_the_nearest_rules_count_first(tree, root):
    """CT-U12."""
    (root / "d").mkdir()
    (root / ".gitignore").write_text("*.log\n/d/x\n")
    (root / "d/.gitignore").write_text("!keep.log\n/x.c\n")
    ignores = [read_ignore(tree, "d"), read_ignore(tree, ".")]
    assert [ignored(ignores, path, "file") for path in (b"d/a.log", b"d/keep.log", b"d/x.c", b"d/x", b"d/e/x.c")] == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_names_of_any_bytes_are_matched(tree, root):
    """CT-U12."""
    (root / ".gitignore").write_bytes(b"caf\xe9*\n")
    ignore = read_ignore(tree, ".")
    assert ignored([ignore], b"caf\xe9.txt", "file")
    assert not ignored([ignore], "café.txt".encode(), "file")


def test_names_of_what_is_built_are_left_out_without_rules():
    """W1: section 6."""
    assert ignored([], b"deep/node_modules", "directory")
    assert not ignored([], b"deep/modules", "directory")


def test_rules_are_bounded(tree, root):
    """CT-R4: so a program can't make listing slow for good."""
    (root / ".gitignore").write_bytes(b"x\n" * MAX_RULES + b"late\n")
    assert not ignored([read_ignore(tree, ".")], b"late", "file")
    (root / ".gitignore").write_bytes(b"#" * MAX_BYTES + b"\nlate\n")
    assert not ignored([read_ignore(tree, ".")], b"late", "file")


@pytest.mark.parametrize("wrong", ["fifo", "directory", "link"])
def test_rules_that_are_no_file_do_not_count(tree, root, wrong):
    """CT-R5, W2."""
    path = root / ".gitignore"
    {"fifo": os.mkfifo, "directory": os.mkdir, "link": lambda path: path.symlink_to("/etc/passwd")}[wrong](path)
    assert read_ignore(tree, ".") is None
