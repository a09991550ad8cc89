"""Finds the directories of this user's state and configuration.

``environ`` gives Gloveport's own variables; XDG base directories are those of this process, as platformdirs reads them.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gloveport.errors import ConfigError
from gloveport.file_descriptors import READ, closing
from gloveport.late_libraries import platformdirs  # root can do without
from gloveport.late_pattern import late_pattern
from gloveport.real_paths import real
from gloveport.untrusted_text import quote

FILE_NAME = "gloveport.toml"

# Control characters would forge lines in logs and error texts; "." and ".." would give one place two spellings.
# What is not UTF-8 can't be written in JSON.
_CANONICAL = late_pattern(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f\ud800-\udfff]+)+")


def is_canonical(path: str) -> bool:
    """Tell whether a path is absolute, names something below ``/``, and is in its canonical spelling."""
    return _CANONICAL.fullmatch(path) is not None


def state_directory(environ: Mapping[str, str]) -> Path:
    """Find the state directory: audit log, trusted files. Not created here.

    Its path has no symbolic link, since sandboxes mount directories of it, which no link may redirect. The home
    directory of many a user is one.

    Raises:
        ConfigError: ``GLOVEPORT_STATE`` is no absolute path, or this user has no home directory.
    """
    return _absolute("GLOVEPORT_STATE", real(named_state_directory(environ)))


def named_state_directory(environ: Mapping[str, str]) -> Path:
    """The same as the environment names it, for who checks the symbolic links on the way. Raises as that."""
    if setting := environ.get("GLOVEPORT_STATE"):
        return _absolute("GLOVEPORT_STATE", Path(setting))
    if os.geteuid() == 0:
        return Path("/var/lib/gloveport")
    return _of_user("XDG_STATE_HOME", lambda: platformdirs.user_state_path("gloveport"))


def workspaces_directory(environ: Mapping[str, str]) -> Path:
    """Find the directory with the state of each workspace that there has been. Raises as ``state_directory``."""
    return state_directory(environ) / "workspaces"


def name_workspace(root: Path) -> str:
    """The name of a workspace's state there."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def config_directory() -> Path:
    """Find the directory of the operator's own configuration file.

    Raises:
        ConfigError: This user has no home directory.
    """
    if os.geteuid() == 0:
        return Path("/etc/gloveport")
    return _of_user("XDG_CONFIG_HOME", lambda: platformdirs.user_config_path("gloveport"))


def is_ours(directory: Path) -> bool:
    """Whether a path is a directory of this user in which nobody else can change anything."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def make_private_directory(directory: Path) -> None:
    """Make a directory, and those above it that are missing, so that nobody but this user can enter them.

    ``Path.mkdir`` leaves the modes of those above to the umask: whoever could write there could replace it.

    Raises:
        OSError: It can't be made.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def refuse_others(directory: Path) -> None:
    """Refuse a directory of the state that is not this user's alone: what lies there may have been planted.

    Raises:
        ConfigError: It exists, and is so.
    """
    if os.path.lexists(directory) and not is_ours(real(directory)):
        raise ConfigError(
            f"{quote(str(directory))} is no directory of this user's alone",
            hint="move it away, or set GLOVEPORT_STATE to a directory of your own",
        )


@contextmanager
def open_private(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file, or with ``O_DIRECTORY`` a directory, that nobody but this user or root can have written.

    Raises:
        OSError: It can't be opened, is a link or of another kind, or others can have written it.
    """
    with closing(os.open(path, READ | flags)) as descriptor:
        status = os.fstat(descriptor)
        if not flags & os.O_DIRECTORY and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if status.st_uid not in {0, os.geteuid()} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "it can be changed by others than this user")
        yield descriptor


def read_private(path: Path, most_bytes: int) -> bytes:
    """Read at most so many bytes of a file. Raises as ``open_private``."""
    with open_private(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read(most_bytes)


def _of_user(variable: str, find: Callable[[], Path]) -> Path:
    try:
        return _absolute(variable, find())
    except RuntimeError:
        raise ConfigError("this user has no home directory", hint=f"set HOME or {variable}") from None


def _absolute(variable: str, path: Path) -> Path:
    # A relative one would lie in the working directory: inside the checkout that the agent works on.
    if not is_canonical(str(path)):
        raise ConfigError(
            f"{variable} leads to {quote(str(path))}, which is no absolute path in UTF-8 free of '.' and '..'",
            hint=f"set {variable} to an absolute path, or unset it",
        )
    return path
