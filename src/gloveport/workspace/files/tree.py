"""Opens paths of the workspace: a guest's path becomes a descriptor, here and nowhere else.

The tree is hostile: a program in the sandbox renames directories, plants links, FIFOs and names of any bytes while its
paths are resolved. So nothing is checked and then opened. The kernel resolves each path beneath a descriptor of the
root (openat2), and from then on only the opened file counts. One more invariant: a returned descriptor was opened by
exactly the path that comes with it, with no link on the way. A link is followed by reading its target path and opening
that. An absolute link is refused wherever it leads: in a sandbox it leads elsewhere.
"""

import errno
import os
import stat
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gloveport.errors import ConfigError, SandboxError
from gloveport.file_descriptors import closing
from gloveport.openat2 import BENEATH, NO_MAGICLINKS, NO_SYMLINKS, NO_XDEV, open_beneath
from gloveport.policy.decisions.protected_names import protected_part
from gloveport.untrusted_text import shorten
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files import descriptors
from gloveport.workspace.files.descriptors import path_of
from gloveport.workspace.files.spelling import check_path, native_name, raw, spell_path

# O_NONBLOCK: a FIFO, or a file on which a program holds a lease, would stop the thread here. O_NOCTTY: a terminal
# among the files must not become the server's.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAME: Final = os.O_PATH | os.O_CLOEXEC

_TRIES: Final = 128
"""How often a path is resolved again because the tree changed meanwhile."""

LIST_FILES: Final = "list_files finds a file elsewhere: glob='**/NAME'"
"""The hint where a path does not exist."""

_REFUSALS: Final = {
    errno.ENOENT: ("NOT_FOUND", "does not exist"),
    errno.ELOOP: ("NOT_FOUND", "leads in a circle of symbolic links"),
    errno.ENOTDIR: ("NOT_A_DIRECTORY", "is not a directory, or leads through what is none"),
    errno.ENXIO: ("NOT_A_FILE", "is a socket or a device"),
    errno.ENODEV: ("NOT_A_FILE", "is a device"),
    errno.ENAMETOOLONG: ("INVALID_ARGUMENT", "is longer, or has a longer name in it, than a file system takes"),
}


class Opened(Struct, frozen=True):
    """An opened file or directory.

    Attributes:
        descriptor: Closed when the context ends.
        path: Its path: links followed, relative to the root, in canonical spelling.
        status: The status of the opened file, not of the file that has the name now.
    """

    descriptor: int
    path: str
    status: os.stat_result


class WriteLocation(Struct, frozen=True):
    """A place where a file may be written. Only write beneath ``parent``, one component at a time, and follow no link.

    Attributes:
        parent: Descriptor of the nearest existing directory; closed when the context ends.
        missing: Names of directories to make in it, the outermost first.
        name: Name of the file. It and ``missing`` are for functions of ``os``, not for display.
        path: The file's path: links followed, relative to the root, in canonical spelling.
        status: Status of the regular file that is there now; None if there is none.
    """

    parent: int
    missing: tuple[str, ...]
    name: str
    path: str
    status: os.stat_result | None


class Tree(Struct, frozen=True):
    """A workspace, held by a descriptor of its root: it stays this directory, whatever is renamed. Any thread may ask.

    Attributes:
        root: Its path when it was opened.
        exempt: Names and paths that may be written though they are protected.
        seen_at: Its path inside sandboxes.
    """

    root: Path
    exempt: AbstractSet[str]
    _descriptor: int
    seen_at: str = ""
    _resolve: int = BENEATH | NO_MAGICLINKS

    @classmethod
    @contextmanager
    def open_tree(cls, root: Path, exempt: AbstractSet[str] = frozenset()) -> Iterator["Tree"]:
        """Hold the directory ``root``, which must be its own real path.

        Raises:
            ConfigError: It is no directory, its path leads through links, or we may not search it.
            SandboxError: The kernel, or a container's system call filter, has no openat2.
        """
        with closing(_open_root(root)) as descriptor:
            tree = cls(root, exempt, descriptor)
            tree._probe()
            yield tree

    def give_access(self) -> None:
        """Give the root's owner access to it: a command may have removed that for all later commands."""
        with suppress(OSError):
            descriptors.let_owner_in(self._descriptor)

    def within_one_mount(self) -> "Tree":
        """This tree without the mounts below its root, for callers that must not wait for another file system. Paths in
        mounts are refused as outside: PATH_OUTSIDE_WORKSPACE or SYMLINK_ESCAPE. Do not use it longer than this one.
        """
        return replace(self, _resolve=self._resolve | NO_XDEV)

    def through_no_link(self) -> "Tree":
        """This tree without its links, for callers that must not wait: to follow 40 long ones takes milliseconds. Paths
        through links are refused: NOT_FOUND. Do not use it longer than this one.
        """
        return replace(self, _resolve=self._resolve | NO_SYMLINKS)

    def make_relative(self, path: str) -> str:
        """A requested path; an absolute one that begins with the root becomes relative to it."""
        if path.startswith("/"):
            for root in (spell_path(bytes(self.root)), self.seen_at):
                if root and f"{path}/".startswith(f"{root}/"):
                    return path[len(root) :].lstrip("/") or "."
        return path

    @contextmanager
    def open_file(self, path: str) -> Iterator[Opened]:
        """Open a regular file for reading. No operation on its descriptor blocks on another process.

        Raises:
            WorkspaceError: NOT_FOUND, NOT_A_DIRECTORY, IS_DIRECTORY, NOT_A_FILE, SYMLINK_ESCAPE,
                PATH_OUTSIDE_WORKSPACE, INTERNAL_ERROR where the server may not read it; or as ``check_path``.
        """
        with self._hold(path, _READ) as opened:
            _demand_regular(opened.status, opened.path)
            yield opened

    def open_directory(self, path: str) -> AbstractContextManager[Opened]:
        """Open a directory for listing.

        Raises:
            WorkspaceError: NOT_FOUND, NOT_A_DIRECTORY, SYMLINK_ESCAPE, PATH_OUTSIDE_WORKSPACE, INTERNAL_ERROR where the
                server may not read it; or as ``check_path``.
        """
        return self._hold(path, _LIST)

    @contextmanager
    def locate(self, path: str) -> Iterator[WriteLocation]:
        """Find where a file may be written; make nothing.

        Raises:
            WorkspaceError: PROTECTED_PATH; SYMLINK_ESCAPE where the last part is a link, or a link before it leads
                nowhere; IS_DIRECTORY, NOT_A_FILE, NOT_A_DIRECTORY, PATH_OUTSIDE_WORKSPACE; or as ``check_path``.
        """
        requested_path = check_path(self.make_relative(path))
        if requested_path == ".":
            raise WorkspaceError("IS_DIRECTORY", "the root of the workspace is a directory")
        self._demand_unprotected(requested_path)
        name = requested_path.rpartition("/")[2]
        parent, above, missing = self._nearest(requested_path)
        with closing(parent):
            resolved = "/".join(part for part in (above, *missing, name) if part != ".")
            if resolved != requested_path:
                self._demand_unprotected(resolved)
            first = missing[0] if missing else name
            status = _status(parent, first, resolved)
            if status is not None and stat.S_ISLNK(status.st_mode):
                what = f"{shorten(first)} in {shorten(requested_path)}"
                raise WorkspaceError("SYMLINK_ESCAPE", f"{what} is a symbolic link, which is not written to")
            if missing:
                status = None
            elif status is not None:
                _demand_regular(status, resolved)
            yield WriteLocation(parent, tuple(map(native_name, missing)), native_name(name), resolved, status)

    def _demand_unprotected(self, path: str) -> None:
        if part := protected_part(path, self.exempt):
            raise WorkspaceError(
                "PROTECTED_PATH",
                f"{shorten(part)} is protected: what is written there runs later, outside of the sandbox",
                hint="ask the operator to exempt it, or leave it to a person",
                details={"path": path, "protected": part},
            )

    @contextmanager
    def _hold(self, path: str, flags: int) -> Iterator[Opened]:
        requested_path = check_path(self.make_relative(path))
        try:
            descriptor, path = self._open(requested_path, flags)
        except OSError as error:
            raise self._refusal(requested_path, error) from error
        with closing(descriptor):
            yield Opened(descriptor, path, os.fstat(descriptor))

    def _nearest(self, requested_path: str) -> tuple[int, str, list[str]]:
        """The nearest existing directory above a path: its descriptor, its path, and the missing names below it.

        Bisected: a path may have 2,000 parts, and each look at one costs milliseconds where links lead to it.
        """
        parts = requested_path.split("/")
        existing, missing = -1, len(parts)  # how many parts lead to a directory, and how many to nothing
        size, opened = len(parts) - 1, (-1, "")
        with ExitStack() as nearest:
            while size > existing:
                try:
                    opened = self._open("/".join(parts[:size]) or ".", _LIST)
                except OSError as error:
                    if error.errno != errno.ENOENT or not size:
                        raise self._refusal(requested_path, error) from error
                    missing = size
                else:
                    existing = size
                    nearest.close()
                    nearest.callback(os.close, opened[0])
                size = (existing + missing) // 2
            nearest.pop_all()
        return *opened, parts[existing:-1]

    def _open(self, requested_path: str, flags: int) -> tuple[int, str]:
        """Open the target of ``requested_path``; returns also its path, by which it was opened without any link."""
        path = requested_path
        for _ in range(_TRIES):
            try:
                return self._openat2(path, flags, NO_SYMLINKS), path
            except OSError as error:
                # A link on the way; a lease; or the target of a link has been moved meanwhile.
                moved = error.errno == errno.ENOENT and path is not requested_path
                if error.errno not in {errno.ELOOP, errno.EAGAIN} and not moved:
                    raise
            with suppress(BlockingIOError):
                path = self._target(requested_path)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _target(self, path: str) -> str:
        """The path that ``path`` leads to at this moment, without links."""
        with closing(self._openat2(path, _NAME)) as descriptor:
            found = path_of(descriptor).rstrip(b"/")
        root = path_of(self._descriptor).rstrip(b"/")
        if found == root:
            return "."
        if not found.startswith(root + b"/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return spell_path(found[len(root) + 1 :])

    def _openat2(self, path: str, flags: int, resolve: int = 0) -> int:
        return open_beneath(self._descriptor, raw(path), flags, self._resolve | resolve)

    def _probe(self) -> None:
        try:
            os.close(self._openat2(".", _NAME, NO_SYMLINKS))
        except OSError as error:
            if error.errno == errno.EACCES:  # a container's filter says EPERM or ENOSYS
                raise ConfigError(
                    f"this user can't look into the workspace {self.root}: {error.strerror}",
                    hint="give it the directory, or the right to search it",
                ) from error
            raise SandboxError(
                f"the kernel can't keep paths inside of the workspace: openat2: {error.strerror}",
                hint="run Linux 5.6 or newer, and let the container's system call filter pass openat2",
            ) from error

    def _refusal(self, path: str, error: OSError) -> WorkspaceError:
        if error.errno == errno.EXDEV:
            code = "SYMLINK_ESCAPE" if self._is_link(path) else "PATH_OUTSIDE_WORKSPACE"
            return WorkspaceError(code, f"{shorten(path)} leads out of the workspace", details={"path": path})
        if error.errno == errno.EAGAIN:
            return WorkspaceError(
                "PATH_OUTSIDE_WORKSPACE",
                f"{shorten(path)} changed at each of {_TRIES} tries: nobody can say whether it lies in the workspace",
                hint="end the program that changes it, and try again",
                retryable=True,
            )
        code, text = _REFUSALS.get(error.errno or 0, ("INTERNAL_ERROR", f"can't be opened: {error.strerror}"))
        hint = LIST_FILES if error.errno == errno.ENOENT else ""
        return WorkspaceError(code, f"{shorten(path)} {text}", hint=hint, details={"path": path})

    def _is_link(self, path: str) -> bool:
        """Whether the last component is a link. Only an error's text depends on this."""
        with suppress(OSError), closing(self._openat2(path, _NAME | os.O_NOFOLLOW)) as descriptor:
            return stat.S_ISLNK(os.fstat(descriptor).st_mode)
        return False


def _status(parent: int, name: str, path: str) -> os.stat_result | None:
    try:
        return os.stat(raw(name), dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        code = "INVALID_ARGUMENT" if error.errno == errno.ENAMETOOLONG else "INTERNAL_ERROR"
        raise WorkspaceError(code, f"{shorten(path)} can't be written: {error.strerror}") from error


def _demand_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise WorkspaceError("IS_DIRECTORY", f"{shorten(path)} is a directory", hint="list_dir lists one")
    if not stat.S_ISREG(status.st_mode):
        raise WorkspaceError("NOT_A_FILE", f"{shorten(path)} is a FIFO, a socket or a device")


def _open_root(root: Path) -> int:
    """Open a workspace as sandboxes see it: sandboxes that root starts do not see mounts below it."""
    try:
        descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            f"the workspace {root} can't be opened: {error.strerror}", hint="name a directory that exists"
        ) from error
    with closing(descriptor):
        if (real := os.fsdecode(path_of(descriptor))) != str(root):
            raise ConfigError(f"the workspace {root} is not a real path", hint=f"write {real}")
        try:
            return descriptors.clone_mount(descriptor) if os.geteuid() == 0 else os.dup(descriptor)
        except OSError as error:
            raise SandboxError(
                f"{root} can't be opened as sandboxes have it: open_tree: {error.strerror}",
                hint="give the container CAP_SYS_ADMIN, or run as another user than root",
            ) from error
