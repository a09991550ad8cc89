"""What a tree may hold, and how it is made. P44."""

import os

import pytest

from gloveport.environments.seal import (
    SealedTree,
    TreeBounds,
    is_whole,
    join_trees,
    keep_contents,
    link_tree,
    measure_tree,
    refuse_shadows,
    verify_tree,
)
from gloveport.errors import Denied

BOUNDS = TreeBounds(bytes=1 << 20, files=50)


@pytest.fixture
def source(tmp_path):
    place = tmp_path / "source"
    (place / "python/pack").mkdir(parents=True)
    (place / "python/pack/__init__.py").write_text("x = 1\n")
    (tmp_path / "files").mkdir()
    return place


def seal(source, name="tree"):
    sealed = keep_contents(source, source.parent / "files", BOUNDS)
    link_tree(sealed, source.parent / name, source.parent / "files")
    return sealed


def test_a_sealed_tree_shares_no_file_with_what_a_sandbox_wrote_and_each_content_is_there_once(source):
    (source / "python/other.py").write_text("x = 1\n")
    (source / "python/_sysconfigdata_x-y.py").touch()
    (source / "python/no-module.py").touch()
    (source / "python/run").write_text("x = 1\n")
    (source / "python/run").chmod(0o755)
    os.link(source / "python/other.py", source.parent / "another name of it")
    sealed = seal(source)
    again = seal(source, "second")
    tree = source.parent / "tree"
    assert sealed.files == again.files
    assert sealed.modules == ["_sysconfigdata_x-y", "other", "pack"]
    first, other, written, executable = (
        path.stat()
        for path in (
            tree / "python/pack/__init__.py",
            source.parent / "second/python/other.py",
            source / "python/other.py",
            tree / "python/run",
        )
    )
    assert first.st_ino == other.st_ino != written.st_ino
    assert (first.st_mode & 0o777, executable.st_mode & 0o777) == (0o444, 0o555)
    assert (tree / "python").stat().st_mode & 0o777 == 0o555
    assert list(verify_tree(tree, sealed.files, sealed.links)) == []


def test_what_is_no_file_of_a_package_is_refused(source):
    python = source / "python"

    def setuid(path):
        path.write_text("")
        path.chmod(0o4755)

    attacks = {
        "absolute link": lambda path: path.symlink_to("/etc/passwd"),
        "climbing link": lambda path: path.symlink_to("../../x"),
        "link through another": lambda path: path.symlink_to("pack/../../../x"),
        "fifo": os.mkfifo,
        "set-user-id": setuid,
        "line\nbreak": lambda path: path.write_text(""),
        "PACK": lambda path: path.write_text(""),
        "large": lambda path: path.write_bytes(b"0" * (1 << 20)),
    }
    for name, make in attacks.items():
        make(python / name)
        with pytest.raises(Denied, match="refused"):
            seal(source, f"tree of {name!a}")
        (python / name).unlink()
    (python / "inside").symlink_to("pack/__init__.py")
    assert seal(source, "good").links == {"python/inside": "pack/__init__.py"}


def test_trees_are_joined_where_they_fit_into_one_and_the_later_ones_files_count(source):
    first = seal(source)
    (source / "python/pack/__init__.py").write_text("x = 2\n")
    (source / "python/second.py").touch()
    second = seal(source, "second")
    joined = join_trees([first, second], BOUNDS)
    assert joined.files == second.files
    assert joined.modules == ["pack", "second"]
    files = {"python/pack/__init__.py": "0"}
    for other in (
        SealedTree(files={"python/pack": "0"}),
        SealedTree(links={"python/pack": "x"}),
        SealedTree(links={"python/second.py": "x"}),
        SealedTree(directories=["python/second.py"]),
        SealedTree(directories=["python/PACK"]),
        SealedTree(files={"python/pack/__INIT__.py": "0"}),
        SealedTree(bytes=BOUNDS.bytes, files=files),
        SealedTree(files={f"python/{number}": "0" for number in range(BOUNDS.files)}),
    ):
        with pytest.raises(Denied, match="refused"):
            join_trees([second, other], BOUNDS)


def test_a_content_that_is_gone_or_another_is_noticed_before_a_tree_is_made_of_it(source):
    sealed, store = seal(source), source.parent / "files"
    assert is_whole(sealed, store)
    name = sealed.files["python/pack/__init__.py"]
    kept = store / name[:2] / name
    kept.chmod(0o644)
    kept.write_text("x = 2\n")
    assert not is_whole(sealed, store)
    kept.unlink()
    assert not is_whole(sealed, store)
    assert seal(source, "anew") == sealed
    assert is_whole(sealed, store)


def test_what_would_be_imported_in_place_of_another_or_at_every_start_is_refused():
    standard_modules = {"json", "cgi"}  # of an interpreter other than ours
    refuse_shadows(["pandas", "jsonschema", "shelve"], standard_modules)
    for name, said in (
        ("json", "stands in the place of another"),
        ("cgi", "stands in the place of another"),
        ("gloveport_tools", "stands in the place of another"),
        ("_sysconfigdata__x86_64-linux-gnu", "stands in the place of another"),
        ("apport_python_hook", "runs at every start of Python"),
        ("sitecustomize", "runs at every start of Python"),
        ("usercustomize", "runs at every start of Python"),
    ):
        with pytest.raises(Denied, match=said):
            refuse_shadows(["pandas", name], standard_modules)


def test_a_tree_that_grows_beyond_its_bounds_is_noticed_without_reading_all_of_it(source):
    assert measure_tree(source, BOUNDS) == ""
    for number in range(60):
        (source / f"{number}").touch()
    assert measure_tree(source, BOUNDS) == "it unpacks to more than 50 files"
