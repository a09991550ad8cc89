"""list_dir and list_files: what is listed, in which order, and what a hostile tree can make of it."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_listing import DirEntry, DirListing, FileEntry, FileListing, list_dir, list_files
from gloveport.workspace.files.walk import WalkBounds


def plant(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def names(answer: DirListing | FileListing) -> str:
    return " ".join(entry["path"] for entry in answer.get("entries", answer.get("files")))


class TestDirectories:
    def test_an_answer_has_every_field_of_the_schema(self, tree, root):
        """W1, CT-U6."""
        (root / "file").write_text("text")
        os.utime(root / "file", ns=(0, 1_577_836_800_123_456_789))
        (root / "link").symlink_to("/etc/passwd")
        answer = list_dir(tree)
        assert answer.keys() == DirListing.__required_keys__
        assert answer["entries"][0] == {
            "name": "file",
            "path": "file",
            "type": "file",
            "size_bytes": 4,
            "modified": "2020-01-01T00:00:00.123456Z",
            "is_hidden": False,
            "is_ignored": False,
        }
        assert answer["entries"][0].keys() == DirEntry.__required_keys__
        assert answer["entries"][1]["symlink_target"] == "/etc/passwd"
        assert (answer["truncated"], answer["truncated_by"], answer["warnings"]) == (False, None, [])
        assert (answer["output_lines"], answer["output_bytes"]) == (2, len("file [file]\nlink [symlink]\n"))

    def test_levels_are_listed_as_deep_as_was_asked(self, tree, root):
        """W1."""
        plant(root, "a/b/c/d", "a-b/x", "z")
        assert names(list_dir(tree)) == "a a-b z"
        assert names(list_dir(tree, recursive=True, max_depth=2)) == "a a/b a-b a-b/x z"
        assert names(list_dir(tree, "a", recursive=True, max_depth=20)) == "a/b a/b/c a/b/c/d"

    def test_they_are_sorted(self, tree, root):
        """W1."""
        plant(root, "new", "old", "dir/x")
        (root / "link").symlink_to("new")
        for age, path in enumerate(("link", "dir", "new", "old")):
            os.utime(root / path, (0, 1000 - age), follow_symlinks=False)
        assert names(list_dir(tree, sort="name")) == "dir link new old"
        assert names(list_dir(tree, sort="type")) == "dir new old link"
        assert names(list_dir(tree, sort="modified")) == "old new dir link"

    @pytest.mark.parametrize(
        ("include", "shown"),
        [
            ((), "kept"),
            (("hidden",), ".gitignore .hidden kept"),
            (("ignored",), "built built/x build build/x kept"),
            (("hidden", "ignored"), ".gitignore .hidden build build/x built built/x kept"),
        ],
    )
    def test_what_is_hidden_or_ignored_comes_on_request(self, tree, root, include, shown):
        """CT-U12: and says that it is."""
        plant(root, ".hidden", "built/x", "build/x", "kept")
        (root / ".gitignore").write_text("built/\n")
        answer = list_dir(tree, recursive=True, max_depth=2, **{f"include_{kind}": True for kind in include})
        assert sorted(names(answer).split()) == sorted(shown.split())
        for entry in answer["entries"]:
            assert entry["is_hidden"] == entry["name"].startswith(".")
            assert entry["is_ignored"] == entry["path"].startswith(("built", "build"))

    def test_a_directory_that_is_asked_for_by_name_is_shown(self, tree, root):
        """CT-U12: an empty answer would be a lie."""
        plant(root, ".github/workflows/x.yml", "node_modules/pkg/index.js", "sub/node_modules/x")
        assert names(list_dir(tree, ".github")) == ".github/workflows"
        answer = list_dir(tree, "node_modules/pkg")
        assert [entry["is_ignored"] for entry in answer["entries"]] == [True]
        assert names(list_dir(tree, "sub")) == ""

    def test_rules_of_directories_above_count_and_those_below_count_more(self, tree, root):
        """CT-U12."""
        plant(root, "a/b/x.log", "a/b/keep.log", "a/b/y")
        (root / ".gitignore").write_text("*.log\n")
        (root / "a/b/.gitignore").write_text("!keep.log\n")
        assert names(list_dir(tree, "a/b")) == "a/b/keep.log a/b/y"

    def test_a_file_is_no_directory(self, tree, root):
        """W1."""
        plant(root, "file")
        with pytest.raises(WorkspaceError) as caught:
            list_dir(tree, "file")
        assert caught.value.code == "NOT_A_DIRECTORY"


class TestFiles:
    def test_an_answer_has_every_field_of_the_schema(self, tree, root):
        """W1, CT-U6."""
        plant(root, "dir/file")
        answer = list_files(tree)
        assert answer.keys() == FileListing.__required_keys__
        assert answer["files"][0].keys() == FileEntry.__required_keys__
        assert (answer["output_lines"], answer["output_bytes"]) == (1, len("dir/file [file]\n"))

    def test_files_and_links_are_listed_and_nothing_else(self, tree, root):
        """W1: a link that leads outside neither."""
        plant(root, "a/file", "z")
        (root / "inside").symlink_to("a/file")
        (root / "outside").symlink_to("/etc/passwd")
        (root / "above").symlink_to("../..")
        os.mkfifo(root / "fifo")
        assert names(list_files(tree)) == "a/file inside z"

    def test_patterns_choose(self, tree, root):
        """W1."""
        plant(root, "src/a.py", "src/deep/b.py", "docs/c.md", "docs/deep/d.md")
        assert names(list_files(tree, patterns=["*.py"])) == "src/a.py src/deep/b.py"
        assert names(list_files(tree, patterns=["a.py", "d.md"])) == "docs/deep/d.md src/a.py"
        assert names(list_files(tree, "src", patterns=["src/a*"])) == "src/a.py"
        assert names(list_files(tree, exclude_patterns=["docs", "b.*"])) == "src/a.py"
        assert names(list_files(tree, patterns=["*.py"], exclude_patterns=["deep/"])) == "src/a.py"

    @pytest.mark.parametrize("patterns", [["x"] * 101, ["x" * 257]])
    def test_patterns_are_bounded(self, tree, patterns):
        """CT-R6."""
        for arguments in ({"patterns": patterns}, {"exclude_patterns": patterns}):
            with pytest.raises(WorkspaceError) as caught:
                list_files(tree, **arguments)
            assert caught.value.code == "INVALID_ARGUMENT"

    def test_they_are_sorted_by_path_or_by_time(self, tree, root):
        """W1."""
        plant(root, "b", "a/x", "a-b")
        os.utime(root / "b", (0, 0))
        os.utime(root / "a/x", (0, 1))
        assert names(list_files(tree)) == "a-b a/x b"
        assert names(list_files(tree, sort="modified")) == "b a/x a-b"


class TestHostileTrees:
    def test_a_walk_follows_no_link(self, tree, root):
        """W2."""
        plant(root, "real/x")
        (root / "loop").symlink_to(".")
        (root / "out").symlink_to("/etc")
        assert names(list_dir(tree, recursive=True, max_depth=20)) == "loop out real real/x"

    def test_what_lies_outside_is_never_listed_while_names_are_exchanged(self, tree, root, exchanging):
        """CT-F3: for as long as 1,000 lists and 1,000 exchanges take."""
        codes = set()
        backs = {"one/two/back", "top/back"}
        with exchanging(root) as exchanges:
            plant(root.parent, "outside/secret")
            lists = 0
            while lists < 1000 or exchanges() < 1000:
                lists += 1
                try:
                    found = set(names(list_dir(tree, "dir")).split()) | set(names(list_files(tree)).split())
                except WorkspaceError as error:
                    codes.add(error.code)
                else:
                    assert found <= {"dir/file", "link/file", "file", "dir", "link", "far", "way", *backs, "still"}
                    codes.add("inside")
        assert "inside" in codes
        assert codes - {"inside"}
        assert codes <= {"inside", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE"}

    def test_names_of_any_bytes_are_listed_as_valid_text_and_open_again(self, tree, root):
        """W2."""
        for name in (b"caf\xe9", b"new\nline", b"\\xe9", b"\xed\xa0\x80"):
            (root / os.fsdecode(name)).write_bytes(name)
        answer = list_files(tree)
        json.dumps(answer, ensure_ascii=False).encode()
        for entry in answer["files"]:
            with tree.open_file(entry["path"]) as opened:
                assert (root / os.fsdecode(os.read(opened.descriptor, 99))).exists()
        assert len(answer["files"]) == 4

    def test_times_that_no_calendar_has_are_told_as_near_as_can_be(self, tree, root):
        """W1."""
        plant(root, "file")
        for time in (-(2**62), 2**62):
            os.utime(root / "file", ns=(0, time))
            assert list_dir(tree)["entries"][0]["modified"].endswith("Z")

    def test_no_more_is_kept_than_is_answered(self, tree, root):
        """CT-R4."""
        plant(root, "00000")
        for number in range(1, 4_000):
            os.link(root / "00000", root / f"{number:05}")
        tracemalloc.start()
        try:
            answer = list_dir(tree, max_entries=10)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()
        assert names(answer) == " ".join(f"{number:05}" for number in range(10))
        assert (answer["truncated_by"], answer["warnings"]) == ("entries", ["entry limit reached"])

    def test_names_and_time_are_bounded_and_the_answer_says_so(self, tree, root):
        """CT-R4."""
        plant(root, *(f"{directory}/{file}" for directory in "abc" for file in "xyz"))
        for listing in (list_dir, list_files):
            answer = listing(tree, bounds=WalkBounds(names=2))
            assert (answer["truncated"], answer["truncated_by"]) == (True, "names")
            answer = listing(tree, bounds=WalkBounds(memory=100))
            assert (answer["truncated"], answer["truncated_by"]) == (True, "names")
            answer = listing(tree, bounds=WalkBounds(seconds=0))
            assert (answer["truncated"], answer["truncated_by"]) == (True, "time")

    def test_rules_are_bounded_and_the_answer_says_so(self, tree, root):
        """CT-R4."""
        plant(root, "a/x", "b/x", "c/x")
        for directory in "abc":
            (root / directory / ".gitignore").write_text("x\n")
        answer = list_files(tree, bounds=WalkBounds(rules=3))
        assert len(answer["files"]) == 1
        assert "1" in answer["warnings"][0]

    def test_an_answer_has_no_more_bytes_than_a_client_takes(self, tree, root, monkeypatch):
        """CT-R4."""
        plant(root, "a", "b", "c")
        monkeypatch.setattr("gloveport.workspace.files.file_listing.MAX_OUTPUT_BYTES", 2 * len("a [file]\n"))
        answer = list_dir(tree)
        assert (names(answer), answer["truncated_by"], answer["output_lines"]) == ("a b", "bytes", 2)

    def test_a_tree_deeper_than_a_path_may_be_is_listed_as_far_as_it_goes(self, tree, root):
        """CT-R4."""
        descriptor = os.open(root, os.O_RDONLY)
        name = "d" * 250
        try:
            for _ in range(20):
                os.mkdir(name, dir_fd=descriptor)
                inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        finally:
            os.close(descriptor)
        answer = list_dir(tree, recursive=True, max_depth=20)
        assert 16 <= len(answer["entries"]) <= 17
        assert answer["warnings"] == ["directories that can't be read: 1"]
