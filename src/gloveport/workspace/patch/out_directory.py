"""Puts files that programs have left into a directory of the workspace.

The programs are dead, or wait for their next call; only bytes and printable names come from them. The tree is hostile
all the same: commands may rename directories and plant links in it meanwhile. So each place is found by
``Tree.locate``, which refuses protected paths; a path through a link is refused too, wherever it leads. A file is
written completely under a name of ours, and then takes its place. It belongs to the directory's owner, and is not
executable.
"""

import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Final

from msgspec import Struct, field

from gloveport.artifacts.artifact_store import Bundle
from gloveport.file_descriptors import CREATE, LIST, closing, write_all
from gloveport.model import OUT, Mount
from gloveport.policy.decisions.protected_names import makes_git_directory
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import check_path, spell_path
from gloveport.workspace.files.tree import Tree, WriteLocation
from gloveport.workspace.patch.commit import HIDDEN
from gloveport.workspace.patch.file_swap import Attributes

_MOST_ENTRIES: Final = 10_000
"""The most entries that are measured in the directory."""

_CHUNK_BYTES: Final = 1 << 20


class OutDirectory(Struct, kw_only=True):
    """The workspace's directory for files that programs leave.

    Attributes:
        view: The mount by which programs see the workspace: files of other programs are not put here.
        path: Path of the directory, below the workspace. It need not exist.
        most_bytes: The most bytes in it.
    """

    tree: Tree
    view: Mount
    path: str
    most_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_closed: bool = False

    def put(self, bundle: Bundle) -> Sequence[str]:
        """Put all files of a bundle there, replacing files of the same names; return the paths of those that could not
        be put there, and why. May be called in any thread.
        """
        with self._lock:
            if self._is_closed:
                return [f"{self.path}: the workspace is closed"]
            try:
                remaining_bytes = self.most_bytes - self._measure()
            except (WorkspaceError, OSError) as error:
                return [f"{self.path}: {error.args[0] if isinstance(error, WorkspaceError) else error.strerror}"]
            failed = []
            for number, artifact in enumerate(bundle.files, 1):
                path = f"{self.path}/{artifact.path.removeprefix(f'{OUT}/')}"
                try:
                    remaining_bytes -= self._put(path, _read_pieces(bundle, number), artifact.bytes, remaining_bytes)
                except WorkspaceError as error:
                    failed.append(f"{path}: {error.args[0]}")
                except (OSError, ValueError) as error:  # ValueError: the bundle is no longer kept
                    failed.append(f"{path}: {getattr(error, 'strerror', None) or 'it is gone'}")
            return failed

    def close(self) -> None:
        """Put nothing there any more; the tree may then be closed."""
        with self._lock:
            self._is_closed = True

    def _put(self, path: str, pieces: Iterator[bytes], size: int, remaining_bytes: int) -> int:
        """Write one file; returns by how many bytes the directory has grown. Raises WorkspaceError, OSError."""
        requested_path = check_path(path)
        with self.tree.locate(requested_path) as place, ExitStack() as stack:
            if place.path != requested_path:
                raise WorkspaceError("SYMLINK_ESCAPE", "a symbolic link leads there")
            if makes_git_directory(place.name):
                raise WorkspaceError("PROTECTED_PATH", "git may take its directory for one of its own")
            more = size - (place.status.st_size if place.status else 0)
            if more > remaining_bytes:
                raise WorkspaceError("INVALID_ARGUMENT", f"no more than {self.most_bytes} bytes may lie in {self.path}")
            directory = _make_directories(place, stack)
            hidden = HIDDEN + secrets.token_hex(16)
            try:
                with closing(os.open(hidden, CREATE, 0o600, dir_fd=directory)) as descriptor:
                    for piece in pieces:
                        write_all(descriptor, piece)
                    Attributes.fresh(directory).give(descriptor)
                os.rename(hidden, place.name, src_dir_fd=directory, dst_dir_fd=directory)
            finally:
                with suppress(OSError):
                    os.unlink(hidden, dir_fd=directory)
            return more

    def _measure(self) -> int:
        """The bytes in the directory. Raises WorkspaceError, OSError if they can't be measured."""
        size, remaining_entries, pending = 0, _MOST_ENTRIES, [self.path]
        while pending:
            try:
                with self.tree.open_directory(pending.pop()) as opened, os.scandir(opened.descriptor) as entries:
                    names = [entry.name for entry in islice(entries, remaining_entries + 1)]
                    remaining_entries -= len(names)
                    for name in names:
                        with suppress(FileNotFoundError):  # it has just been removed
                            status = os.stat(name, dir_fd=opened.descriptor, follow_symlinks=False)
                            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
                            if stat.S_ISDIR(status.st_mode):
                                pending.append(f"{opened.path}/{spell_path(os.fsencode(name))}")
            except WorkspaceError as error:
                if error.code != "NOT_FOUND":
                    raise
            if remaining_entries < 0:
                raise WorkspaceError("INVALID_ARGUMENT", f"more than {_MOST_ENTRIES} files lie there")
        return size


def _make_directories(place: WriteLocation, stack: ExitStack) -> int:
    """The directory of a file, made where it is missing. Raises OSError, also where somebody puts a link there."""
    directory = place.parent
    for name in place.missing:
        os.mkdir(name, 0o755, dir_fd=directory)
        child = stack.enter_context(closing(os.open(name, LIST, dir_fd=directory)))
        owner = Attributes.fresh(directory).owner
        if owner is not None:
            os.fchown(child, *owner)
        directory = child
    return directory


def _read_pieces(bundle: Bundle, number: int) -> Iterator[bytes]:
    offset = 0
    while piece := bundle.read(number, offset, _CHUNK_BYTES):
        yield piece
        offset += len(piece)
