"""Finds what the container or unit in which Gloveport was started takes from it, and sandboxes need."""

import os
from pathlib import Path
from typing import Final

from gloveport.sandbox.launch import apparmor

_STATUS: Final = Path("/proc/self/status")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_UIDS: Final = Path("/proc/self/uid_map")

_SYS_ADMIN: Final = 1 << 21
_EMPTY: Final = ("/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc")
"""Directories of ``/proc`` that are always empty: a mount there hides nothing of it."""


def repair(first_uid: int | None) -> str:
    """What to change of the container or unit; empty where nothing of that kind is found. ``first_uid``: of sandboxes
    that root starts.

    Only for a host where no sandbox can be built: each of these may be in force where one can.
    """
    status = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    is_root, needs = os.geteuid() == 0, []
    if is_root and not int(status["CapEff"], 16) & _SYS_ADMIN:
        needs.append(
            "root lacks CAP_SYS_ADMIN (--cap-add SYS_ADMIN --cap-add SYS_PTRACE, or an ordinary user by --user)"
        )
    if first_uid is not None and not _is_mapped(first_uid):
        needs.append(f"there is no user {first_uid} (sandbox.first_uid, or an ordinary user by --user)")
    # The kernel lets nobody mount another /proc where a part of this one is hidden.
    if _hides_proc():
        needs.append(
            "a part of /proc is hidden (--security-opt systempaths=unconfined, with podman unmask=ALL; "
            "in a unit no ProtectKernelTunables= or ProtectKernelLogs=)"
        )
    if (label := apparmor.read_label()).endswith("(enforce)"):
        needs.append(f"the AppArmor profile {label} confines us (--security-opt apparmor=unconfined)")
    # Where root has CAP_SYS_ADMIN, a container engine's filter lets through what sandboxes need.
    if int(status.get("Seccomp", "0")) and not (is_root and needs):
        needs.append(
            "system calls are filtered (--security-opt seccomp=unconfined; "
            "in a unit no RestrictNamespaces=, ProtectHostname= or SystemCallFilter=)"
        )
    if not needs:
        return ""
    return f"start the container, or the unit, with what sandboxes need: {'; '.join(needs)}"


def _is_mapped(uid: int) -> bool:
    ranges = [[int(word) for word in line.split()] for line in _UIDS.read_text().splitlines()]
    return any(first <= uid < first + count for first, _, count in ranges)


def _hides_proc() -> bool:
    points = [line.split()[4] for line in _MOUNTS.read_text().splitlines()]
    return any(point.startswith("/proc/") and point not in _EMPTY for point in points)
