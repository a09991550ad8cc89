"""The search for a program along a PATH is that of shutil, which is not imported for it."""

import shutil

import pytest

from gloveport.executables import find_executable


@pytest.fixture
def directory(tmp_path, monkeypatch):
    for place in ("one", "two", "here"):
        (tmp_path / place).mkdir()
    for name, mode in (("one/plain", 0o644), ("two/plain", 0o755), ("two/tool", 0o755), ("here/local", 0o755)):
        (tmp_path / name).touch(mode=mode)
        (tmp_path / name).chmod(mode)
    (tmp_path / "one" / "tool").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["plain", "tool", "local", "./local", "../two/tool", "../one/plain", "../one", "", "no"]
)
def test_a_program_is_found_where_shutil_finds_it(directory, name):
    for path in ("", "{0}/one:{0}/two", "{0}/two:{0}/one", "{0}/none::{0}/two", ":", "relative:."):
        places = path.format(directory)
        assert find_executable(name, places) == shutil.which(name, path=places), places
