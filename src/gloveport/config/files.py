"""Read a file that nobody but its owner may change. Opened once; every check is made on the open descriptor."""

import errno
import os
import stat
from pathlib import Path

from gloveport.config.wording import argument, printable
from gloveport.errors import ConfigError

MAX_BYTES = 1 << 18


def read_own(path: Path, *, flags: int = 0) -> bytes | None:
    """Read a small file of this user's or root's.

    Args:
        path: What to open.
        flags: More flags for ``open``; ``os.O_NOFOLLOW`` refuses a symbolic link in the file's place.

    Returns:
        The whole content, or ``None`` where nothing has that name.

    Raises:
        ConfigError: It is a dangling link, unreadable, not a regular file, larger than ``MAX_BYTES``, owned by somebody
            other than this user and root, or writable by others.
    """
    name = printable(str(path))
    try:
        # O_NONBLOCK: a FIFO planted under the name must not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | flags)
    except FileNotFoundError:
        if dangling := next((part for part in (path, *path.parents) if part.is_symlink() and not part.exists()), None):
            raise ConfigError(
                f"{name} can't be read: {printable(str(dangling))} is a symbolic link that leads nowhere",
                hint="repair the link or remove it",
            ) from None
        return None
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        _refuse_unsafe(path, os.fstat(descriptor))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(name, error) from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"{name} is larger than {MAX_BYTES} bytes", hint="this is not a configuration file; remove it"
        )
    return content


def _unreadable(name: str, error: OSError) -> ConfigError:
    if error.errno == errno.ELOOP:
        return ConfigError(
            f"{name} is a symbolic link, or one of its links leads back to itself",
            hint="put a regular file in its place, or name the file it stands for with --config",
        )
    return ConfigError(f"{name} can't be read: {error.strerror}", hint="repair its permissions, or remove it")


def _refuse_unsafe(path: Path, status: os.stat_result) -> None:
    name = printable(str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{name} is not a regular file", hint="put a regular file in its place, or remove it")
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            f"{name} belongs to user id {status.st_uid}, who could change it at any time",
            hint=f"review it, then make it yours: chown {os.geteuid()} {argument(path)}",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{name} may be written by others than its owner (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"review it, then run: chmod go-w {argument(path)}",
        )
