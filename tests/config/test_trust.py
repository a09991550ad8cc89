"""P17: A project file counts only with the very content that a person has reviewed."""

import hashlib

import pytest

from gloveport.config import load, trust
from gloveport.errors import ConfigError


def found(home):
    return load(None, cwd=home.project, environ=home.environ)


def test_an_untrusted_project_file_is_a_refusal_that_says_what_to_do(home):
    """T3"""
    home.project_file.write_text("admission.queue_length = 1\n")
    with pytest.raises(ConfigError, match="is not trusted") as caught:
        found(home)
    assert caught.value.hint == (
        f"review it, then run: gloveport config trust {home.project_file}; or name another file with --config"
    )


def test_the_command_to_paste_is_quoted_and_printable(home):
    """The name of a directory is whatever the author of a checkout chose."""
    hostile = home.base / "a; $(touch x)\n\u202e"
    hostile.mkdir()
    (hostile / "gloveport.toml").write_text("")
    with pytest.raises(ConfigError) as caught:
        load(None, cwd=hostile, environ=home.environ)
    assert f"trust '{home.base}/a; $(touch x)\\n\\u202e/gloveport.toml'; or" in caught.value.hint


def test_an_untrusted_file_is_not_even_parsed(home):
    home.project_file.write_text("= broken\n")
    with pytest.raises(ConfigError, match="is not trusted"):
        found(home)


@pytest.mark.parametrize("name", ["project", "project_file"])
def test_trust_is_given_by_directory_or_by_file(home, name):
    home.project_file.write_text("admission.queue_length = 1\n")
    trusted = trust(getattr(home, name), environ=home.environ)
    assert trusted.path == home.project_file
    assert trusted.text == "admission.queue_length = 1\n"
    assert found(home).config.admission.queue_length == 1


def test_a_changed_file_is_a_refusal_until_it_is_trusted_again(home):
    """T3"""
    home.project_file.write_text("admission.queue_length = 1\n")
    trust(home.project, environ=home.environ)
    home.project_file.write_text("admission.queue_length = 2\n")
    with pytest.raises(ConfigError, match="has changed since it was trusted"):
        found(home)
    trust(home.project, environ=home.environ)
    assert found(home).config.admission.queue_length == 2


def test_an_earlier_content_is_no_longer_trusted(home):
    home.project_file.write_text("policy.unix_sockets = true\n")
    trust(home.project, environ=home.environ)
    home.project_file.write_text("policy.unix_sockets = false\n")
    trust(home.project, environ=home.environ)
    home.project_file.write_text("policy.unix_sockets = true\n")
    with pytest.raises(ConfigError, match="has changed"):
        found(home)


def test_trust_does_not_travel_to_another_path(home):
    home.project_file.write_text("")
    trust(home.project, environ=home.environ)
    other = home.base / "other"
    other.mkdir()
    (other / "gloveport.toml").write_text("")
    with pytest.raises(ConfigError, match="is not trusted"):
        load(None, cwd=other, environ=home.environ)


def test_a_link_to_the_directory_is_the_same_project(home):
    home.project_file.write_text("admission.queue_length = 1\n")
    link = home.base / "link"
    link.symlink_to(home.project)
    trust(link, environ=home.environ)
    assert found(home).config.admission.queue_length == 1


def test_the_record_is_private_and_reads_like_sha256sum(home):
    home.project_file.write_text("# hello\n")
    trust(home.project, environ=home.environ)
    (record,) = (home.state / "trusted").iterdir()
    digest = hashlib.sha256(b"# hello\n").hexdigest()
    assert record.read_text() == f"{digest}  {home.project_file}\n"
    assert record.stat().st_mode & 0o777 == 0o600
    assert record.parent.stat().st_mode & 0o777 == 0o700
    assert home.state.stat().st_mode & 0o777 == 0o700


def test_a_record_that_others_may_write_is_worth_nothing(home):
    home.project_file.write_text("")
    trust(home.project, environ=home.environ)
    (record,) = (home.state / "trusted").iterdir()
    record.chmod(0o666)
    with pytest.raises(ConfigError, match="may be written by others"):
        found(home)


def test_what_is_no_toml_or_no_project_file_gets_no_trust(home):
    home.project_file.write_text("= broken\n")
    with pytest.raises(ConfigError, match="not TOML"):
        trust(home.project, environ=home.environ)
    (home.project / "x.toml").touch()
    with pytest.raises(ConfigError, match=r"is not named gloveport\.toml"):
        trust(home.project / "x.toml", environ=home.environ)
    home.project_file.unlink()
    with pytest.raises(ConfigError, match="does not exist"):
        trust(home.project, environ=home.environ)
    assert not home.state.exists()


def test_a_state_directory_that_cannot_be_written_is_a_refusal(home):
    home.project_file.write_text("")
    home.state.mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="can't be written: Permission denied"):
        trust(home.project, environ=home.environ)
