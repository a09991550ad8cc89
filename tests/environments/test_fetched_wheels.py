"""What a sandbox says that it has fetched is kept only where it is a file with the digest of the lock. P44."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport.environments.environment_store import EnvironmentStore
from gloveport.environments.locks import Lock, Wheel
from gloveport.environments.seal import TreeBounds


def test_nothing_but_the_file_that_was_locked_is_kept(tmp_path):
    (store := EnvironmentStore(tmp_path / "environments")).create()
    file = "pack-1-py3-none-any.whl"
    wheel = Wheel(file=file, url=f"https://index.example/{file}", sha256=hashlib.sha256(b"wheel").hexdigest())
    (tmp_path / "right").write_bytes(b"wheel")
    (tmp_path / "wrong").write_bytes(b"another")
    (tmp_path / "link").symlink_to(tmp_path / "right")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    before = len([*Path("/proc/self/fd").iterdir()])
    for name in ("wrong", "link", "directory", "fifo", "none"):
        assert not store.wheels.keep(wheel, tmp_path / name), name
    assert store.wheels.keep(wheel, tmp_path / "right")
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    assert [path.name for path in (store.root / "wheels").iterdir()] == [wheel.sha256]


def test_what_was_installed_of_a_wheel_is_there_for_the_next_environment_until_it_is_collected(tmp_path):
    (store := EnvironmentStore(tmp_path / "environments")).create()
    wheel, bounds = Wheel(url="", file="pack-1-py3-none-any.whl", sha256="0" * 64), TreeBounds(bytes=1 << 20, files=9)
    lock = Lock(text="", packages=())
    (tmp_path / "left/python").mkdir(parents=True)
    (tmp_path / "left/python/pack.py").write_text("x = 1\n")
    kept = store.wheels.keep_unpacked(wheel, "python", tmp_path / "left", bounds)
    assert store.wheels.load_unpacked(wheel, "python") == kept
    for file, interpreter in (("other-1-py3-none-any.whl", "python"), (wheel.file, "another")):
        assert store.wheels.load_unpacked(wheel.model_copy(update={"file": file}), interpreter) is None
    tree = store.join([kept], lock, "python", bounds, frozenset())
    assert (store.path_of(tree) / "python/pack.py").read_text() == "x = 1\n"
    store.remove(tree)
    store.collect([], 3600)
    assert store.wheels.load_unpacked(wheel, "python") == kept
    store.collect([], 0)
    assert store.wheels.load_unpacked(wheel, "python") is None
    with pytest.raises(FileNotFoundError):
        store.join([kept], lock, "python", bounds, frozenset())
    assert store.list_trees() == []


def test_what_a_killed_build_has_left_without_a_record_is_collected(tmp_path):
    (store := EnvironmentStore(tmp_path / "environments")).create()
    bounds, trees = TreeBounds(bytes=1 << 20, files=9), []
    for name in ("kept", "killed"):
        (tmp_path / name / "python").mkdir(parents=True)
        (tmp_path / name / "python/pack.py").write_text(name)
        trees.append(store.seal(tmp_path / name, Lock(text=name, packages=()), "python", bounds, ()))
    (store.root / "trees" / f"{trees[1].address}.json").unlink()
    store.collect(trees, 0)
    assert [path.exists() for path in map(store.path_of, trees)] == [True, False]
    assert len([*(store.root / "files").glob("*/*")]) == 1


def test_builds_that_keep_the_same_wheel_at_once_disturb_each_other_in_nothing(tmp_path):
    """In threads of one server. What one has digested another must not write to: here it claims the same digest."""
    (store := EnvironmentStore(tmp_path / "environments")).create()
    content = bytes(1 << 20)
    wheel = Wheel(url="", file="same.whl", sha256=hashlib.sha256(content).hexdigest())
    (tmp_path / "right").write_bytes(content)
    (tmp_path / "wrong").write_bytes(b"x" * len(content))
    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            kept = threads.map(store.wheels.keep, (wheel, wheel), (tmp_path / "right", tmp_path / "wrong"))
            assert [*kept] == [True, False]
            assert store.wheels.take(wheel, tmp_path / "taken")
