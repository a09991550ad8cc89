"""Files that are replaced whole or not at all."""

import os
import subprocess
import sys

import pytest

from gloveport.atomic_file import replace_file, temporary_file


def test_what_is_there_is_replaced_by_a_file_of_the_owners_alone(tmp_path):
    path = tmp_path / "record"
    path.write_text("former")
    path.chmod(0o644)
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [*tmp_path.iterdir()] == [path]


def test_what_can_not_be_replaced_stays_and_nothing_is_left_beside_it(tmp_path):
    (tmp_path / "record").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "record", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_what_a_killed_writer_has_left_goes_with_the_next_file_and_nothing_else_does(tmp_path):
    """It would stay for ever, with what it holds; another may be about to take its place."""
    kill = "os.kill(os.getpid(), 9)"
    writer = "import os, pathlib, sys; from gloveport.atomic_file import temporary_file\n"
    writer += f"with temporary_file(pathlib.Path(sys.argv[1]), b'token', suffix=sys.argv[2]): {kill}"
    for suffix in ("", ".toml"):
        subprocess.run([sys.executable, "-c", writer, tmp_path, suffix], check=False)
    killed = [*tmp_path.iterdir()]
    assert len(killed) == 2
    replace_file(tmp_path / "record", b"1")
    others = [tmp_path / name for name in (".gloveport-0123456789abcdef", "gloveport-abcdefgh", "record")]
    others[0].mkdir()
    others[1].touch()
    for path in (*killed, *others):
        os.utime(path, (0, 0))
    replace_file(tmp_path / "other", b"2")
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "other"])


def test_a_temporary_file_that_took_no_place_is_gone(tmp_path):
    with temporary_file(tmp_path, b"text", suffix=".toml") as path:
        assert (path.suffix, path.read_bytes()) == (".toml", b"text")
    assert [*tmp_path.iterdir()] == []
