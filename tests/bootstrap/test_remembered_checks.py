"""What is remembered of a host, and by whom it is believed."""

import json
import os
from pathlib import Path

import pytest

from gloveport.bootstrap.host_setup import open_host
from gloveport.bootstrap.remembered_checks import recall_checks, remember_checks
from gloveport.config import Config
from gloveport.model.reading import read_value
from gloveport.sandbox.detection.probe import Check

SOUND = [Check(name="seccomp", state="enforced", detail="in force"), Check(name="disks", state="weaker", detail="no")]
MISSING = Check(name="landlock", state="missing", detail="none")


@pytest.fixture
def state(environ):
    path = Path(environ["GLOVEPORT_STATE"])
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="module")
def host():
    with open_host(Config(), {}) as found:
        yield found


def test_what_was_found_sound_is_recalled_for_the_same_and_for_nothing_else(host, environ, state):
    """T3: another configuration, kernel or bubblewrap is looked at anew."""
    assert recall_checks(host, Config(), environ) is None
    remember_checks(host, Config(), environ, SOUND)
    assert list(recall_checks(host, Config(), environ)) == SOUND
    with open_host(Config(), environ) as again:
        assert list(recall_checks(again, Config(), environ)) == SOUND
    other = read_value(Config, {"sandbox": {"landlock_abi": 3}})
    assert recall_checks(host, other, environ) is None
    remember_checks(host, other, environ, SOUND)
    assert list(recall_checks(host, other, environ)) == list(recall_checks(host, Config(), environ)) == SOUND


def test_what_no_sandbox_is_built_from_is_nothing_else(host, environ, state, tmp_path):
    """A person has many workspaces, and rules for each."""
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    remember_checks(host, read_value(Config, {"workspace": {"root": str(first)}}), environ, SOUND)
    same = read_value(
        Config, {"workspace": {"root": str(second)}, "clients": {"structured": ["a"]}, "pool": {"idle_seconds": 9}}
    )
    assert list(recall_checks(host, same, environ)) == SOUND
    mounts = [{"source": str(first), "target": "/first"}]
    for other in (
        {"policy": {"mounts": mounts}},
        {"policy": {"limits": {"open_files": 100}}},
        {"pool": {"forked": 0}},
        {"api": {"a": {"hosts": ["a.example"]}}},
    ):
        assert (
            recall_checks(host, read_value(Config, {"workspace": {"root": str(second)}, **other}), environ) is None
        ), other
    assert recall_checks(host, Config(), environ) is None, "a workspace can not do without the fork server"


def test_some_are_remembered_and_the_oldest_is_forgotten(host, environ, state):
    configs = [read_value(Config, {"policy": {"limits": {"open_files": number}}}) for number in range(100, 117)]
    for config in configs:
        remember_checks(host, config, environ, SOUND)
    assert [recall_checks(host, config, environ) is not None for config in configs] == [False] + [True] * 16


def test_what_is_missing_is_looked_for_each_time(host, environ, state):
    """T3."""
    remember_checks(host, Config(), environ, [*SOUND, MISSING])
    assert recall_checks(host, Config(), environ) is None


def test_what_somebody_else_may_have_written_is_not_believed(host, environ, state, tmp_path):
    """T3: nor what is no file, or not as it was written."""
    remember_checks(host, Config(), environ, SOUND)
    (file,) = state.iterdir()
    whole = file.read_bytes()

    def attempt(spoil):
        spoil()
        assert recall_checks(host, Config(), environ) is None
        file.unlink(missing_ok=True)
        file.write_bytes(whole)
        file.chmod(0o600)
        state.chmod(0o700)

    attempt(lambda: file.chmod(0o620))
    attempt(lambda: file.chmod(0o604))
    attempt(lambda: state.chmod(0o777))
    attempt(lambda: file.write_bytes(whole[:-9]))
    attempt(lambda: file.write_bytes(b"[1]"))
    attempt(lambda: file.write_bytes(json.dumps({key: [{"name": 1}] for key in json.loads(whole)}).encode()))

    def link():
        other = tmp_path / "other"
        other.write_bytes(whole)
        other.chmod(0o600)
        file.unlink()
        file.symlink_to(other)

    attempt(link)

    def replace_by(make):
        file.unlink()
        make(file)
        assert recall_checks(host, Config(), environ) is None
        (file.rmdir if file.is_dir() else file.unlink)()
        file.write_bytes(whole)
        file.chmod(0o600)

    replace_by(Path.mkdir)
    replace_by(os.mkfifo)
    if os.geteuid() == 0:
        attempt(lambda: os.chown(file, 65_534, 0))
        os.chown(file, 0, 0)
        attempt(lambda: os.chown(state, 65_534, 0))
        os.chown(state, 0, 0)
    assert list(recall_checks(host, Config(), environ)) == SOUND
