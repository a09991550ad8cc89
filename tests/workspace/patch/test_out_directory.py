"""What programs leave comes into one directory of the workspace, and nowhere else, whoever attacks it meanwhile."""

import contextlib
import os
import stat
from pathlib import Path

import pytest

from gloveport.artifacts.artifact_store import Bundle
from gloveport.model import Mount
from gloveport.workspace.patch import out_directory
from gloveport.workspace.patch.out_directory import OutDirectory


@pytest.fixture
def put(tree, tmp_path):
    """``put({"a.csv": b"1"})``: what was not put into ``results``, and why."""

    def call(files, most_bytes=1 << 20, path="results"):
        bundle = Bundle(tmp_path, "me")
        for name, data in files.items():
            bundle.begin()
            bundle.write(data)
            bundle.end(name, f"/out/{name}")
        view = Mount(source=str(tree.root), target="/project")
        with contextlib.closing(bundle):
            return [*OutDirectory(tree=tree, view=view, path=path, most_bytes=most_bytes).put(bundle)]

    return call


def found(root):
    """All that lies below, by path: content of files, None for the rest."""
    below = {path.relative_to(root).as_posix(): path for path in root.rglob("*")}
    return {
        name: path.read_bytes() if path.is_file() and not path.is_symlink() else None for name, path in below.items()
    }


def test_files_come_whole_with_their_directories_and_in_the_place_of_former_ones(root, put):
    """E3: and no file may be executed, also where a former one could be."""
    large = os.urandom(3 << 20)
    assert put({"a.csv": b"1", "deep/er/b.bin": large}, most_bytes=8 << 20) == []
    (root / "results/a.csv").chmod(0o755)
    assert put({"a.csv": b"22"}, most_bytes=8 << 20) == []
    assert found(root / "results") == {"a.csv": b"22", "deep": None, "deep/er": None, "deep/er/b.bin": large}
    assert stat.S_IMODE((root / "results/a.csv").stat().st_mode) == 0o644


def test_who_reads_a_former_file_or_links_to_it_keeps_it(root, put):
    """W2: nothing is written into what another name means as well."""
    (root / "results").mkdir()
    (root / "source.py").write_bytes(b"source")
    (root / "results/a").hardlink_to(root / "source.py")
    assert put({"a": b"new"}) == []
    assert found(root) == {"source.py": b"source", "results": None, "results/a": b"new"}


@pytest.mark.parametrize(
    "name", [".git/hooks/post-checkout", "x/.git/config", ".vscode/tasks.json", ".envrc", "x/.ENV"]
)
def test_what_is_protected_is_not_written(root, put, name):
    """P40, W2: it would run when the owner next looks into the directory."""
    assert [line for line in put({name: b"evil", "good": b"1"}) if "is protected" in line]
    assert {path: data for path, data in found(root).items() if data is not None} == {"results/good": b"1"}


def test_no_directory_becomes_one_of_git(root, put):
    """P40, W2: git would run what a configuration in it names."""
    parts = {f"bare/{name}": b"x" for name in ("HEAD", "config", "objects/a", "refs/a")}
    assert put(parts) == ["results/bare/HEAD: git may take its directory for one of its own"]
    assert not (root / "results/bare/HEAD").exists()


def test_no_link_is_followed_and_nothing_else_replaced(root, put):
    """P40, W2: neither out of the workspace nor to another place in it."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"kept")
    (root / "src").mkdir()
    (root / "results").mkdir()
    (root / "results/file").symlink_to(outside / "file")
    (root / "results/out").symlink_to(outside)
    (root / "results/in").symlink_to("../src")
    os.mkfifo(root / "results/pipe")
    (root / "results/dir").mkdir()
    before = found(root)
    names = ("file", "out/file", "out/new", "in/new", "pipe", "dir")
    assert len(put(dict.fromkeys(names, b"evil"))) == len(names)
    assert (found(root), found(outside)) == (before, {"file": b"kept"})


def test_a_directory_that_is_a_link_takes_nothing(root, put):
    """W2"""
    (root / "src").mkdir()
    (root / "results").symlink_to("src")
    assert put({"a": b"1"})
    assert found(root / "src") == {}


def test_names_mean_what_they_show(root, put):
    """E3: no spelling of a name leads elsewhere."""
    put({r"\x2e\x2e": b"1", r"..\x2fa": b"2", "...": b"3", "~": b"4"})
    assert all(path.parent == root / "results" for path in (root / "results").iterdir())
    assert {path.name for path in root.iterdir()} == {"results"}


def test_no_more_lies_there_than_may(root, put, monkeypatch):
    """L1: also of many runs, and where nobody can count it."""
    half = bytes(600 << 10)
    assert put({"a": half}) == []
    (refused,) = put({"b": half, "c": b"small"})
    assert "results/b" in refused
    assert "no more than" in refused
    assert put({"a": half}) == []
    monkeypatch.setattr(out_directory, "_MOST_ENTRIES", 1)
    assert "more than" in put({"d": b""})[0]
    assert {*found(root / "results")} == {"a", "c"}


def test_files_stay_inside_while_somebody_exchanges_what_lies_there(root, put, exchanging):
    """P40, W2: names are links and directories by turns, all the time."""
    with exchanging(root) as exchanges:
        while exchanges() < 2000:
            put({"file": b"evil"}, path="dir")
            put({"dir/file": b"evil"}, path="way")
    outside = Path(root.parent / "outside")
    assert found(outside).get("file") == b"outside"
    assert not [name for name, data in found(outside).items() if data == b"evil"]
