"""Assembles packages that are installed on this host into one tree, so that sandboxes see them by one mount.

The tree consists of hard links to the installed files, which take no room. Where a link is impossible (another file
system, another owner, a file that not everybody may read), the file is copied.
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gloveport.environments.environment_store import EnvironmentStore
from gloveport.late_libraries import shutil
from gloveport.real_paths import real
from gloveport.user_directories import is_ours

_SPARED_BYTES: Final = 64 << 20
"""Room that copies leave on the disk, as builds do: the audit log is there, and without room nothing runs."""


def assemble_installed(store: EnvironmentStore, address: str, sources: Mapping[str, str]) -> Path:
    """The directory of a tree, made if it is missing. Two concurrent makers make one, a killed maker none. ``address``
    is the digest of its contents; ``sources`` are files and directories of this host, by their path in the tree. Links
    are followed.

    Raises:
        OSError: Something can't be read or written, or somebody else can write to the store.
    """
    place = store.root / "installed" / address
    store.create()
    if not is_ours(store.root):
        raise PermissionError(f"others can write to {store.root}")
    if not place.exists():
        with store.open_work() as work:
            _make_tree(work / "tree", sources)
            try:
                (work / "tree").rename(place)
            except OSError:
                if not place.exists():  # another process may have been faster
                    raise
    os.utime(place)  # mark it as used: see ``EnvironmentStore.collect``
    return place


def _make_tree(tree: Path, sources: Mapping[str, str]) -> None:
    _make_directory(tree)
    copies = 0
    for name, source in sources.items():
        target = tree / name
        if not target.parent.exists():
            _make_directory(target.parent)
        copies += _link_or_copy(Path(source), target)
    if copies:  # after a power cut a name may exist without its content
        descriptor = os.open(tree, os.O_RDONLY | os.O_CLOEXEC)
        ctypes.CDLL(None).syncfs(descriptor)
        os.close(descriptor)


def _link_or_copy(source: Path, target: Path) -> int:
    """Link or copy ``source`` and all below it to ``target``; returns how many files were copied."""
    status = source.stat()
    if stat.S_ISDIR(status.st_mode):
        _make_directory(target)
        return sum(_link_or_copy(path, target / path.name) for path in source.iterdir())
    if not stat.S_ISREG(status.st_mode):
        return 0
    if status.st_mode & stat.S_IROTH:  # sandboxes have a uid of their own
        with contextlib.suppress(OSError):
            target.hardlink_to(real(source) if source.is_symlink() else source)
            return 0
    disk = os.statvfs(target.parent)
    if disk.f_bavail * disk.f_frsize < _SPARED_BYTES + status.st_size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    shutil.copy2(source, target)  # with its time, by which Python checks compiled files
    target.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    return 1


def _make_directory(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)  # whatever the umask is
