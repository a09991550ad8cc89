"""Rules of .gitignore files, read without git."""

import os
import time

import pytest

from gloveport.workspace.files.gitignore import (
    MAX_BYTES,
    MAX_RULES,
    MOST_RULES,
    IgnoreIndex,
    find_ignored,
    find_ignored_at_once,
    is_ignored,
    read_ignore,
)


def kept(tree, root, rules: bytes, paths: str) -> str:
    """Of paths, those that the rules of the root do not ignore; what ends in ``/`` is a directory."""
    (root / ".gitignore").write_bytes(rules)
    ignore = read_ignore(tree, ".")
    assert ignore is not None

    def is_kept(path: str) -> bool:
        return not is_ignored([ignore], path.removesuffix("/").encode(), "directory" if path.endswith("/") else "file")

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
    assert [
        is_ignored(ignores, path, "file") for path in (b"d/a.log", b"d/keep.log", b"d/x.c", b"d/x", b"d/e/x.c")
    ] == [
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
    assert is_ignored([ignore], b"caf\xe9.txt", "file")
    assert not is_ignored([ignore], "café.txt".encode(), "file")


def test_names_of_what_is_built_are_left_out_without_rules():
    """W1: section 6."""
    assert is_ignored([], b"deep/node_modules", "directory")
    assert not is_ignored([], b"deep/modules", "directory")


def test_rules_are_bounded(tree, root):
    """CT-R4: so a program can't make listing slow for good."""
    (root / ".gitignore").write_bytes(b"x\n" * MAX_RULES + b"late\n")
    assert not is_ignored([read_ignore(tree, ".")], b"late", "file")
    (root / ".gitignore").write_bytes(b"#" * MAX_BYTES + b"\nlate\n")
    assert not is_ignored([read_ignore(tree, ".")], b"late", "file")


@pytest.mark.parametrize("wrong", ["fifo", "directory", "link"])
def test_rules_that_are_no_file_do_not_count(tree, root, wrong):
    """CT-R5, W2."""
    path = root / ".gitignore"
    {"fifo": os.mkfifo, "directory": os.mkdir, "link": lambda path: path.symlink_to("/etc/passwd")}[wrong](path)
    assert read_ignore(tree, ".") is None


def seconds_for(tree, paths: list[str]) -> float:
    """Processor time of this thread: the machine may be busy."""
    before = time.thread_time()
    find_ignored(tree, paths)
    return time.thread_time() - before


class TestAmong:
    def test_the_rules_of_all_directories_above_count(self, tree, root):
        """W5: a rule below takes back what one above says, but not for what lies in a directory that is left out."""
        (root / "d/e").mkdir(parents=True)
        (root / "out").mkdir()
        (root / ".gitignore").write_text("*.log\nout/\n/d/x/\n")
        (root / "d/.gitignore").write_text("!keep.log\n")
        (root / "out/.gitignore").write_text("!*\n")
        asked = [
            "a.log",
            "d/keep.log",
            "d/e/./a.log",
            "out/a",
            "out",
            "d/x/y/z",
            "b",
            ".",
            "d/dist/a",
            "../a.log",
            "/a.log",
        ]
        assert find_ignored(tree, asked) == {"a.log", "d/e/./a.log", "out/a", "d/x/y/z", "d/dist/a"}

    @pytest.mark.parametrize(
        "path", ["a/" * 1000 + "f", "a/" * 6000 + "f", "n" * 12_000, "\0" + "a/" * 6000, "\ud800/a"]
    )
    def test_a_path_of_many_parts_takes_no_time(self, tree, path):
        """CT-R4, W5: whoever asks with it holds up everybody else."""
        assert seconds_for(tree, [path] * 4) < 0.3

    def test_neither_do_many_directories_with_rules(self, tree, root):
        """CT-R4, W5."""
        here = root
        for _ in range(200):
            here /= "d"
            here.mkdir()
            (here / ".gitignore").write_text("".join(f"**/*{'a' * number}b*c\n" for number in range(40)))
        assert seconds_for(tree, ["d/" * 200 + ("a" * 250 + "/") * 10 + "f"]) < 1.5

    def test_hostile_rules_are_compiled_once_and_not_beyond_a_bound(self, tree, root):
        """CT-R4, W5."""
        here = root
        for number in range(9):
            (here / ".gitignore").write_text(
                "".join(f"x{number}/**/[a-z]*{n:015d}?\n" for n in range(2000))[:MAX_BYTES]
            )
            here /= "d"
            here.mkdir()
        first = seconds_for(tree, ["d/" * 9 + "f"])
        assert first < 1.0
        assert seconds_for(tree, ["d/" * 9 + "f"]) < first / 3

    def test_rules_beyond_the_bound_of_one_call_do_not_count(self, tree, root):
        """CT-R4, W5."""
        (root / "d").mkdir()
        (root / "d/.gitignore").write_text("*.log\n")
        (root / ".gitignore").write_text("#" * (MOST_RULES - 100))
        assert find_ignored(tree, ["d/a.log"]) == {"d/a.log"}
        (root / ".gitignore").write_text("#" * MOST_RULES)
        assert find_ignored(tree, ["d/a.log"]) == frozenset()

    def test_where_others_wait_more_than_a_few_rules_are_not_read(self, tree, root):
        """P38: to compile all that count takes a second."""
        (root / ".gitignore").write_text("*.log\n")
        assert find_ignored_at_once(tree, ["a.log", "b"]) == {"a.log"}
        (root / ".gitignore").write_text(f"{'*/' * 400}a\n" * 80)
        with pytest.raises(BlockingIOError):
            find_ignored_at_once(tree, ["a.log"])

    def test_a_rule_that_the_bound_cuts_is_none(self, tree, root):
        """CT-R4, W5: it would be another one."""
        (root / ".gitignore").write_text("#" * (MAX_BYTES - 5) + "\n*.c\nabc\n")
        assert find_ignored(tree, ["x.c", "abc", "a"]) == {"x.c"}
        (root / ".gitignore").write_text("#" * (MAX_BYTES - 6) + "\n*.c\nabc\n")
        assert find_ignored(tree, ["x.c", "abc", "a"]) == {"x.c"}

    def test_rules_that_change_count_at_once(self, tree, root):
        """W5: also where size and times stay the same."""
        rules = root / ".gitignore"
        for name in ("a", "b"):
            rules.write_text(name)
            os.utime(rules, (1, 1))
            assert find_ignored(tree, ["a", "b"]) == {name}


def test_a_search_reads_the_rules_of_few_directories(tree, root):
    """W1, P38: each may have 64 KiB, which take a quarter of a second to compile; the first ones count."""
    for number in range(20):
        directory = root / "/".join("d" * number)
        directory.mkdir(exist_ok=True)
        (directory / ".gitignore").write_bytes(b"out%d\n" % number + b"#" * (MAX_BYTES - 20) + b"\nlast\n")
    index = IgnoreIndex(tree)
    assert [index.leaves_out("/".join([*"d" * 19, name])) for name in ("out0", "out19", "x")] == [True, False, False]
    assert index.size < 6 * MAX_BYTES
