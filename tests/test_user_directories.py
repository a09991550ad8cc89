"""Where the state of a user lies, and who can enter it."""

import os
import stat

from gloveport.user_directories import make_private_directory


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
