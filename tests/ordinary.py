"""Runs a module of Python as an ordinary user, when started as root: ``python -m tests.ordinary UID MODULE ARGUMENT…``

The checkout and its interpreter may lie where no other user can go, in root's home say. So a mount namespace of its own
shows them at the same paths, below directories that are open: nothing is copied or installed for that user.
"""

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _mount(source: str, target: Path, kind: bytes | None, flags: int, data: bytes | None) -> None:
    _check(_libc.mount(source.encode(), bytes(target), kind, flags, data), f"mount {target}")


def reveal(paths: list[Path]) -> None:
    """Make ``paths`` reachable for everybody, in a mount namespace of this process."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE, None)
    opened = {path: os.open(path, os.O_PATH) for path in paths}  # before anything covers one
    for path, descriptor in opened.items():
        closed = [parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001]
        if closed:
            _mount("tmpfs", closed[0], b"tmpfs", 0, b"mode=0755")
        if closed or not path.exists():
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC, None)


def become(uid: int) -> None:
    """Be this user, to whom the checkout and its interpreter are shown; the checkout is the working directory."""
    root = Path(__file__).resolve().parents[1]
    needed = {root, Path(sys.prefix), Path(sys.base_prefix).resolve()}
    reveal(sorted(path for path in needed if not any(path != other and path.is_relative_to(other) for other in needed)))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir(root)


def main() -> None:
    """See the module."""
    become(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, "-B", "-m", *sys.argv[2:]])


if __name__ == "__main__":
    main()
