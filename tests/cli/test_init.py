"""``gloveport init``: presets, as a person adds them."""

import os
import tomllib

import pytest

from gloveport.config import load
from gloveport.config.preset_tables import preset_names


@pytest.fixture
def run(gloveport, environ, tmp_path):
    """Run a command of Gloveport's whose configuration is the test's own."""
    told = {**os.environ, **environ, "GLOVEPORT_CONFIG": str(tmp_path / "gloveport.toml")}
    return lambda *arguments: gloveport.run(*arguments, env=told, cwd=tmp_path)


def test_what_a_preset_writes_is_sound_and_is_not_written_twice(run, tmp_path):
    """O1, T5: each by itself, and all."""
    file = tmp_path / "gloveport.toml"
    for names in [[name] for name in preset_names()] + [preset_names()]:
        presets = [word for name in names for word in ("--preset", name)]
        file.write_text("# mine\n[policy]\nlanguages = ['python']\n")
        file.chmod(0o600)
        first = run("init", *presets)
        assert first.returncode == 0, (names, first.stderr)
        text = file.read_text()
        assert text.startswith("# mine\n[policy]\nlanguages = ['python']\n\n"), names
        assert text.endswith(first.stdout), names
        assert tomllib.loads(first.stdout).keys() <= {"api", "environments", "exec"}, names
        assert load(file, cwd=tmp_path, environ={}).config, names
    assert run("init", *presets).returncode == 0
    assert file.read_text() == text


def test_what_the_owner_has_written_stays(run, tmp_path):
    mine = '[api.anthropic]\nhosts = ["models.example.com"]\n'
    (tmp_path / "gloveport.toml").write_text(mine)
    (tmp_path / "gloveport.toml").chmod(0o600)
    added = run("init", "--preset", "claude")
    assert added.stdout.startswith("[exec.programs.claude]")
    assert (tmp_path / "gloveport.toml").read_text().startswith(mine)


def test_the_first_configuration_may_be_one_of_presets(run, tmp_path):
    (tmp_path / "gloveport.toml").unlink(missing_ok=True)
    assert run("init", "--preset", "pypi").returncode == 0
    assert (tmp_path / "gloveport.toml").stat().st_mode & 0o077 == 0


def test_without_a_preset_those_that_there_are_are_told(run, tmp_path):
    refused = run("init")
    assert refused.returncode == 2
    assert "pypi" in refused.stderr
    assert not (tmp_path / "gloveport.toml").exists()


def test_a_preset_that_there_is_not_is_told_with_those_that_there_are(run, tmp_path):
    refused = run("init", "--preset", "pipi")
    assert refused.returncode == 2
    assert "pypi" in refused.stderr
    assert not (tmp_path / "gloveport.toml").exists()


@pytest.mark.parametrize(("preset", "command"), [("github", "gloveport doctor"), ("web", "gloveport env build")])
def test_the_command_that_comes_next_is_told(run, preset, command):
    told = run("init", "--preset", preset).stderr
    assert [one for one in ("gloveport doctor", "gloveport env build") if one in told] == [command]


def test_a_working_directory_that_is_gone_is_a_refusal(gloveport, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused = gloveport.run("init", "--preset", "pypi", "--config", str(tmp_path / "gloveport.toml"))
    assert refused.returncode == 2
    assert "the working directory no longer exists" in refused.stderr
    assert not (tmp_path / "gloveport.toml").exists()
