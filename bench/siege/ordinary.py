"""The same siege as an ordinary user, when root starts it: ``python -m bench.siege.ordinary [delegated] …``.

``delegated``: with cgroups that are handed over to that user, as ``systemd-run --user -p Delegate=yes`` does; version 1
alone. The checkout and its interpreter may lie where no other user can go; ``tests/ordinary.py`` shows them.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tests.ordinary import become

_CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuacct", "blkio")
_UID: Final = 65531  # of no account, and not that of the test suite, which may run meanwhile


def main() -> None:
    """Become that user, and go on."""
    delegated = sys.argv[1:2] == ["delegated"]
    if delegated:
        _enter_groups_of_its_own()
    become(_UID)
    os.execv(sys.executable, [sys.executable, "-B", "-m", "bench.siege.siege", *sys.argv[1 + delegated :]])


def groups_of(pid: int) -> list[Path]:
    """Where the cgroups are that this process hands over to itself as another user: one for each controller."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if names in _CONTROLLERS:
            found.append(Path(f"/sys/fs/cgroup/{names}{path.rstrip('/')}/siege-{pid}"))
    return found


def _enter_groups_of_its_own() -> None:
    for directory in groups_of(os.getpid()):
        directory.mkdir()
        for path in (directory, directory / "cgroup.procs", directory / "tasks"):
            os.chown(path, _UID, _UID)
        (directory / "cgroup.procs").write_text(str(os.getpid()))


if __name__ == "__main__":
    main()
