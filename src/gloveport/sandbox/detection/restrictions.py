"""Finds what the container or unit in which Gloveport was started takes from it, and sandboxes need."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gloveport.errors import SandboxError
from gloveport.sandbox.launch import apparmor

_STATUS: Final = Path("/proc/self/status")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_UIDS: Final = Path("/proc/self/uid_map")

_CAPABILITIES: Final = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7, "SYS_ADMIN": 21}
"""What root needs for sandboxes that run as users of their own → its bit. Without ``KILL`` nobody could end them."""

_SYS_PTRACE: Final = "SYS_PTRACE"
"""What commands of a workspace need besides."""

_EMPTY: Final = ("/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc")
"""Directories of ``/proc`` that are always empty: a mount there hides nothing of it."""


def require_capabilities(first_uid: int) -> None:
    """Refuse to start sandboxes as a root that lacks a capability for it. ``first_uid``: see ``repair``.

    Raises:
        SandboxError: It names those that lack; the launch itself would say no more than that it is not permitted.
    """
    if lacking := _lacking_capabilities(_read_status()):
        names = ", ".join(f"CAP_{name}" for name in lacking)
        raise SandboxError(f"no sandbox can be built by a root without {names}", hint=repair(first_uid))


def repair(first_uid: int | None) -> str:
    """What to change of the container or unit; empty where nothing of that kind is found. ``first_uid``: of sandboxes
    that root starts.

    Only for a host where no sandbox can be built: each of these may be in force where one can.
    """
    status = _read_status()
    is_root, needs = os.geteuid() == 0, []
    if is_root and (lacking := _lacking_capabilities(status)):
        names = ", ".join(f"CAP_{name}" for name in lacking)
        options = " ".join(f"--cap-add {name}" for name in (*lacking, _SYS_PTRACE))
        needs.append(
            f"root lacks {names} ({options}, or an ordinary user by --user; "
            "in a unit no CapabilityBoundingSet= without them, or User=)"
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


def _read_status() -> dict[str, str]:
    return dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())


def _lacking_capabilities(status: Mapping[str, str]) -> list[str]:
    effective = int(status["CapEff"], 16)
    return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]


def _is_mapped(uid: int) -> bool:
    ranges = [[int(word) for word in line.split()] for line in _UIDS.read_text().splitlines()]
    return any(first <= uid < first + count for first, _, count in ranges)


def _hides_proc() -> bool:
    points = [line.split()[4] for line in _MOUNTS.read_text().splitlines()]
    return any(point.startswith("/proc/") and point not in _EMPTY for point in points)
