"""Detects whether AppArmor denies bubblewrap user namespaces, and has the profile that permits them.

Ubuntu permits user namespaces only for programs with a profile that allows them. Its profile for /usr/bin/bwrap drops
every capability in child processes, so sandboxes can be built, but no fork server can fork any. Ours is for a copy at
its own path: replacing the profile named ``bwrap`` would weaken others that rely on it.
"""

import filecmp
import stat
from pathlib import Path
from typing import Final

from gloveport.errors import SandboxError

BUBBLEWRAP: Final = Path("/usr/lib/gloveport/bwrap")
"""Path of the copy that our profile is attached to."""

UNKNOWN: Final = "the words above say what failed; `dmesg` names what the kernel has forbidden, or killed"

_DISTRIBUTED: Final = Path("/usr/bin/bwrap")
_PROFILE: Final = Path(__file__).with_name("gloveport-bwrap.apparmor")
_INSTALLED: Final = "/etc/apparmor.d/gloveport-bwrap"
_LABEL: Final = Path("/proc/self/attr/apparmor/current")
_RESTRICTED: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def is_restricting() -> bool:
    """Whether programs without a profile get no user namespaces."""
    return _RESTRICTED.exists() and _RESTRICTED.read_text().strip() == "1"


def read_label() -> str:
    """The profiles that confine this process, as the kernel words them; empty where there is no AppArmor."""
    try:
        return _LABEL.read_text(errors="replace").strip("\0\n")
    except OSError:
        return ""


def repair(program: Path) -> str:
    """The commands that put a copy of this bubblewrap and its profile in place. They may be run again."""
    source = _DISTRIBUTED if _DISTRIBUTED.exists() else program
    copy = [_copy(source)] if source != BUBBLEWRAP else []
    profile = f"sudo install -m 644 {_PROFILE} {_INSTALLED}"
    return " && ".join([*copy, profile, f"sudo apparmor_parser -r {_INSTALLED}"])


def repair_of_copy(program: Path) -> str:
    """The command that renews the copy; empty if ``program`` is no copy, or equals the distribution's."""
    if program != BUBBLEWRAP or not _DISTRIBUTED.exists() or filecmp.cmp(program, _DISTRIBUTED, shallow=False):
        return ""
    return _copy(_DISTRIBUTED)


def find_copy() -> Path | None:
    """The copy, if there is one. Raises SandboxError if another user than root could replace it."""
    if not BUBBLEWRAP.exists():
        return None
    for path in (BUBBLEWRAP, *BUBBLEWRAP.parents):
        status = path.lstat()
        if status.st_uid != 0 or (status.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(status.st_mode)):
            raise SandboxError(
                f"{BUBBLEWRAP} could be replaced: others than root may write {path}",
                hint=f"sudo rm -r {BUBBLEWRAP.parent}; `gloveport doctor` then tells whether it is needed, and how",
            )
    return BUBBLEWRAP


def _copy(source: Path) -> str:
    return f"sudo install -D {source} {BUBBLEWRAP}"
