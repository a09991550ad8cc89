"""Files that are replaced whole or not at all."""

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


def test_a_temporary_file_that_took_no_place_is_gone(tmp_path):
    with temporary_file(tmp_path, b"text", suffix=".toml") as path:
        assert (path.suffix, path.read_bytes()) == (".toml", b"text")
    assert [*tmp_path.iterdir()] == []
