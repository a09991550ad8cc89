"""Puts packages that are installed on this host together into one tree, so that sandboxes see them by one mount.

The tree is made of links to the installed files, which take no room. Where none can be made (another file system,
another's file, one that not everybody may read), a file is copied.
"""

import contextlib
import ctypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gloveport.environments.environment_store import EnvironmentStore
from gloveport.late_module import late_module
from gloveport.user_directories import is_ours

if TYPE_CHECKING:
    import shutil
else:
    shutil = late_module("shutil")


def assemble_installed(store: EnvironmentStore, address: str, sources: Mapping[str, str]) -> Path:
    """The directory of a tree, which is made where it is not there yet. Two at once make one, and a killed one none.

    Args:
        store: Where it is kept.
        address: Digest of what is in it.
        sources: What lies under which path of it: files and directories of this host. Links are followed.

    Raises:
        OSError: Something can't be read or written, or somebody else can write to the store.
    """
    place = store.root / "installed" / address
    if not place.exists():
        store.create()
    if not is_ours(store.root):
        raise PermissionError(f"others can write to {store.root}")
    if not place.exists():
        with store.open_work() as work:
            _make_tree(work / "tree", sources)
            try:
                (work / "tree").rename(place)
            except OSError:
                if not place.exists():  # as it does where another process has been faster
                    raise
    os.utime(place)  # it is used: see ``EnvironmentStore.collect``
    return place


def _make_tree(tree: Path, sources: Mapping[str, str]) -> None:
    _make_directory(tree)
    copies = 0
    for name, source in sources.items():
        target = tree / name
        if not target.parent.exists():
            _make_directory(target.parent)
        copies += _put(Path(source), target)
    if copies:  # a name may outlive a power cut that its content does not
        descriptor = os.open(tree, os.O_RDONLY | os.O_CLOEXEC)
        ctypes.CDLL(None).syncfs(descriptor)
        os.close(descriptor)


def _put(source: Path, target: Path) -> int:
    """Put what lies at ``source``, and all below it, at ``target``; how many files were copied."""
    status = source.stat()
    if stat.S_ISDIR(status.st_mode):
        _make_directory(target)
        return sum(_put(path, target / path.name) for path in source.iterdir())
    if not stat.S_ISREG(status.st_mode):
        return 0
    if status.st_mode & stat.S_IROTH:  # sandboxes have a uid of their own
        with contextlib.suppress(OSError):
            target.hardlink_to(source.resolve() if source.is_symlink() else source)
            return 0
    shutil.copy2(source, target)  # with its time, by which Python knows what it has compiled of it
    target.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    return 1


def _make_directory(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)  # whatever the umask is
