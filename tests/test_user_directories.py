"""Where the state of a user lies, and who can enter it."""

import os
import stat

import pytest

from gloveport.errors import ConfigError
from gloveport.user_directories import make_private_directory, read_private, refuse_others, state_directory


def test_nobody_else_can_enter_a_directory_nor_those_made_for_it_whatever_the_umask(tmp_path):
    """P17: else others could put records of trust, or of approvals, in the place of ours."""
    before = os.umask(0)
    try:
        for _ in range(2):
            make_private_directory(tmp_path / "state" / "gloveport" / "audit")
    finally:
        os.umask(before)
    for name in ("state", "state/gloveport", "state/gloveport/audit"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_a_state_directory_that_leads_to_what_can_not_be_written_down_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a\nb")
    with pytest.raises(ConfigError, match="GLOVEPORT_STATE leads to"):
        state_directory({"GLOVEPORT_STATE": str(tmp_path / "link")})


@pytest.mark.parametrize("path", ["state", "/a/../state", "/a\nb", "/state-\udcff"])
def test_a_state_directory_that_can_not_be_written_down_is_refused(path):
    with pytest.raises(ConfigError, match=r"GLOVEPORT_STATE leads to .* no absolute path in UTF-8"):
        state_directory({"GLOVEPORT_STATE": path})


def test_a_file_that_others_could_write_is_not_read_and_a_fifo_keeps_nobody_waiting(tmp_path):
    """P17."""
    (file := tmp_path / "file").write_bytes(b"content")
    assert read_private(file, 3) == b"con"
    file.chmod(0o620)
    with pytest.raises(PermissionError, match="can be changed by others"):
        read_private(file, 3)
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "link").symlink_to(file)
    for name in ("fifo", "link", "."):
        with pytest.raises(OSError, match=r"regular file|symbolic links"):
            read_private(tmp_path / name, 3)


def test_a_directory_that_others_could_write_is_refused(tmp_path):
    """P17: what lies there may have been planted."""
    (directory := tmp_path / "directory").mkdir(mode=0o700)
    refuse_others(directory)
    refuse_others(tmp_path / "missing")
    directory.chmod(0o770)
    with pytest.raises(ConfigError, match="this user's alone"):
        refuse_others(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_somebody_else_is_refused(tmp_path):
    """P17: they can put anything there at any time."""
    (directory := tmp_path / "directory").mkdir(mode=0o700)
    os.chown(directory, 12345, 12345)
    with pytest.raises(ConfigError, match="this user's alone"):
        refuse_others(directory)
