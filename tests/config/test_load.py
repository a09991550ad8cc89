"""Which files count, in which order, and where each value comes from."""

import os
import stat
from pathlib import Path

import pytest

from gloveport.config import Config, leaves, load, trust
from gloveport.config.sources.owned_files import MAX_BYTES, WRITABLE, _refuse_unsafe
from gloveport.config.toml_text import spell_key
from gloveport.errors import ConfigError


def found(home):
    return load(None, cwd=home.project, environ=home.environ)


def refusal(home, given=None, environ=None):
    with pytest.raises(ConfigError) as caught:
        load(given, cwd=home.project, environ=environ or home.environ)
    assert caught.value.hint
    return str(caught.value)


def test_without_any_file_every_value_is_the_default(home):
    loaded = found(home)
    assert loaded.config == Config()
    assert loaded.files == ()
    assert set(loaded.origins) == {spell_key(key) for key, _ in leaves(loaded.config)}
    assert set(loaded.origins.values()) == {"default"}


def test_the_project_file_is_laid_over_the_users_key_by_key(home):
    """T5: precedence."""
    home.user_file.write_text(
        '[policy]\nlanguages = ["shell", "python"]\n[policy.limits]\nprocesses = 10\nopen_files = 64\n'
    )
    home.project_file.write_text('policy.limits.processes = 20\n\npolicy.languages = ["python"]\n')
    trust(home.project_file, environ=home.environ)
    loaded = found(home)
    assert loaded.files == (home.user_file, home.project_file)
    assert loaded.config.policy.limits.processes == 20
    assert loaded.config.policy.limits.open_files == 64
    assert loaded.config.policy.languages == {"python"}
    assert loaded.origins["policy.limits.processes"] == f"{home.project_file}:1"
    assert loaded.origins["policy.languages"] == f"{home.project_file}:3"
    assert loaded.origins["policy.limits.open_files"] == f"{home.user_file}:5"
    assert loaded.origins["policy.limits.wall_seconds"] == "default"


def test_a_named_file_counts_alone(home):
    home.user_file.write_text("admission.queue_length = 1\n")
    home.project_file.write_text("admission.queue_length = 2\n")
    given = home.base / "mine.toml"
    given.write_text("admission.queue_seconds = 3\n")
    loaded = load(given, cwd=home.project, environ=home.environ)
    assert loaded.files == (given,)
    assert loaded.config.admission.queue_length == Config().admission.queue_length
    assert loaded.config.admission.queue_seconds == 3


def test_the_environment_names_a_file_and_the_option_wins(home):
    one, two = home.project / "one.toml", home.base / "two.toml"
    one.write_text("admission.queue_length = 1\n")
    two.write_text("admission.queue_length = 2\n")
    environ = home.environ | {"GLOVEPORT_CONFIG": "one.toml"}
    assert load(None, cwd=home.project, environ=environ).config.admission.queue_length == 1
    assert load(two, cwd=home.project, environ=environ).config.admission.queue_length == 2


def test_an_empty_variable_names_nothing(home):
    assert load(None, cwd=home.project, environ=home.environ | {"GLOVEPORT_CONFIG": ""}).files == ()


def test_a_named_file_that_does_not_exist_is_refused(home):
    """T3: fail closed."""
    assert "gone.toml does not exist" in refusal(home, Path("gone.toml"))
    assert "gone.toml does not exist" in refusal(home, environ=home.environ | {"GLOVEPORT_CONFIG": "gone.toml"})


def test_a_directory_is_not_taken_for_no_file(home):
    assert "is not a regular file" in refusal(home, Path())


def test_an_empty_file_is_a_file(home):
    home.user_file.write_text("")
    assert found(home).files == (home.user_file,)


def test_in_the_operators_own_directory_the_file_is_read_once_and_needs_no_trust(home):
    home.user_file.write_text("admission.queue_length = 1\n")
    loaded = load(None, cwd=home.user_file.parent, environ=home.environ)
    assert loaded.files == (home.user_file,)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(home, mode):
    """T3"""
    home.user_file.write_text("")
    home.user_file.chmod(mode)
    text = refusal(home)
    assert f"may be written by others than its owner (mode {mode:04o})" in text
    assert f"chmod go-w {home.user_file}" in text


def test_a_file_of_another_user_is_refused_and_one_of_root_is_not():
    """T3"""
    stranger = os.geteuid() + 1
    with pytest.raises(ConfigError, match=f"belongs to user id {stranger}"):
        _refuse_unsafe(Path("x"), os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, stranger, 0, 0, 0, 0, 0)), WRITABLE)
    _refuse_unsafe(Path("x"), os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, 0, 0, 0, 0)), WRITABLE)


def test_a_file_that_cannot_be_read_is_refused(home):
    """T3: an unreadable file."""
    home.user_file.write_text("")
    home.user_file.chmod(0)
    assert "can't be read: Permission denied" in refusal(home)


def test_a_directory_that_cannot_be_searched_is_refused(home):
    home.user_file.parent.chmod(0)
    assert "can't be read: Permission denied" in refusal(home)
    home.user_file.parent.chmod(0o700)


def test_a_dangling_link_is_refused_in_the_files_place_and_above_it(home):
    """T3: a file that was meant to count is not silently left out."""
    home.user_file.symlink_to(home.base / "gone")
    assert f"{home.user_file} is a symbolic link that leads nowhere" in refusal(home)
    home.user_file.unlink()
    home.user_file.parent.rmdir()
    home.user_file.parent.symlink_to(home.base / "gone")
    assert f"{home.user_file.parent} is a symbolic link that leads nowhere" in refusal(home)


def test_a_link_to_a_safe_file_is_followed(home):
    (home.base / "dotfiles.toml").write_text("admission.queue_length = 1\n")
    home.user_file.symlink_to(home.base / "dotfiles.toml")
    assert found(home).config.admission.queue_length == 1


def test_a_project_file_that_is_a_link_is_refused(home):
    home.user_file.write_text("")
    home.project_file.symlink_to(home.user_file)
    assert "is a symbolic link" in refusal(home)


def test_a_loop_of_links_is_refused(home):
    home.user_file.symlink_to(home.user_file)
    assert "leads back to itself" in refusal(home)


def test_a_fifo_is_refused_and_does_not_hang(home):
    os.mkfifo(home.user_file)
    assert "is not a regular file" in refusal(home)


def test_a_huge_file_is_refused(home):
    home.user_file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert f"is larger than {MAX_BYTES} bytes" in refusal(home)


def test_text_that_is_not_utf8_is_refused_with_its_line(home):
    home.user_file.write_bytes(b"# fine\n# caf\xe9\n")
    assert f"{home.user_file}:2: not UTF-8 (byte 0xe9)" in refusal(home)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = \n", ":2:5: not TOML"),
        ("a = 1\na = 2\n", ":2:6: not TOML"),
        ("x = [", ": not TOML: Invalid value (at end of document)"),
    ],
)
def test_a_syntax_fault_is_placed(home, text, place):
    home.user_file.write_text(text)
    assert f"{home.user_file}{place}" in refusal(home)


def test_text_without_quotes_is_told_of_them(home):
    home.user_file.write_text("[api.x]\nhosts = [api.example.com]\n")
    text = refusal(home)
    assert f"{home.user_file}:2:10: not TOML: Invalid value\n" in text
    assert "hint: text needs quotes; see https://toml.io/en/v1.0.0" in text
    home.user_file.write_text("a = 1\na = 2\n")
    assert "quotes" not in refusal(home)


@pytest.mark.parametrize(
    "text",
    [
        f"x = {'[' * 5000}{']' * 5000}\n",
        f"{'.'.join(['a'] * 100)} = 1\n",
        f"[{'.'.join(['a'] * 5000)}]\n",
        f"x = {'9' * 5000}\n",
        f"x = 0x{'f' * 5000}\n",
        "policy.limits.processes = 9223372036854775808\n",
    ],
)
def test_hostile_toml_is_refused_like_any_other(home, text):
    """T3: an error inside a check is a refusal."""
    home.user_file.write_text(text)
    assert str(home.user_file) in refusal(home)


def test_a_state_directory_must_be_absolute(home):
    assert "GLOVEPORT_STATE leads to" in refusal(home, environ={"GLOVEPORT_STATE": "state"})


def test_a_users_directory_must_have_one_spelling(home, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x/../y")
    assert "XDG_CONFIG_HOME leads to" in refusal(home)


def test_a_relative_users_directory_is_never_the_checkout(home, monkeypatch):
    """T1: a checkout can't bring the operator's own file along."""
    (home.project / "gloveport").mkdir()
    (home.project / "gloveport/gloveport.toml").write_text("= broken\n")
    home.user_file.write_text("")
    monkeypatch.chdir(home.project)
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    monkeypatch.setenv("HOME", str(home.base))
    (home.base / ".config").symlink_to(home.base / "config")
    assert found(home).files == (home.base / ".config/gloveport/gloveport.toml",)
