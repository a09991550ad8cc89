"""Reads files that only their owner may change. Opens each once, and checks the open descriptor."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gloveport.config.toml_text import argument, printable
from gloveport.errors import ConfigError

MAX_BYTES = 1 << 18


WRITABLE = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that no file that counts may have: write permission of others."""

ANYTHING = stat.S_IRWXG | stat.S_IRWXO
"""Mode bits that no file with secrets may have: any permission of others."""


def read_own(path: Path, *, flags: int = 0, forbidden: int = WRITABLE) -> bytes | None:
    """Read a small file of this user's or root's.

    Args:
        path: What to open.
        flags: More flags for ``open``; ``os.O_NOFOLLOW`` refuses a symbolic link in the file's place.
        forbidden: Bits of the mode that the file may not have.

    Returns:
        The whole content, or ``None`` where nothing has that name.

    Raises:
        ConfigError: It is a dangling link, unreadable, not a regular file, larger than ``MAX_BYTES``, owned by somebody
            other than this user and root, or has one of the bits.
    """
    with _open_file(path, flags) as descriptor:
        if descriptor is None:
            return None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(
                f"{printable(str(path))} is not a regular file", hint="put a regular file in its place, or remove it"
            )
        _refuse_unsafe(path, status, forbidden)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"{printable(str(path))} is larger than {MAX_BYTES} bytes",
            hint="this is not a configuration file; remove it",
        )
    return content


def list_own(path: Path) -> list[str]:
    """List the names in a directory of this user's or root's, in order; none where nothing has that name.

    Raises:
        ConfigError: As ``read_own``: whoever may write to the directory may add a file that counts.
    """
    with _open_file(path, os.O_DIRECTORY) as descriptor:
        if descriptor is None:
            return []
        _refuse_unsafe(path, os.fstat(descriptor), WRITABLE)
        return sorted(os.listdir(descriptor))  # noqa: PTH208 - a descriptor, not a path


@contextmanager
def _open_file(path: Path, flags: int) -> Iterator[int | None]:
    """Open a file; None where nothing has that name."""
    try:
        # O_NONBLOCK: a FIFO planted under the name must not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | flags)
    except FileNotFoundError:
        if dangling := next((part for part in (path, *path.parents) if part.is_symlink() and not part.exists()), None):
            raise ConfigError(
                f"{printable(str(path))} can't be read: {printable(str(dangling))} is a symbolic link that leads "
                "nowhere",
                hint="repair the link or remove it",
            ) from None
        yield None
        return
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        yield descriptor
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> ConfigError:
    name = printable(str(path))
    if error.errno == errno.ELOOP:
        return ConfigError(
            f"{name} is a symbolic link, or one of its links leads back to itself",
            hint="put a regular file in its place, or name the file it stands for with --config",
        )
    return ConfigError(f"{name} can't be read: {error.strerror}", hint="repair its permissions, or remove it")


def _refuse_unsafe(path: Path, status: os.stat_result, forbidden: int) -> None:
    name = printable(str(path))
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            f"{name} belongs to user id {status.st_uid}, who could change it at any time",
            hint=f"review it, then make it yours: chown {os.geteuid()} {argument(path)}",
        )
    if status.st_mode & WRITABLE:
        raise ConfigError(
            f"{name} may be written by others than its owner (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"review it, then run: chmod go-w {argument(path)}",
        )
    if status.st_mode & forbidden:
        raise ConfigError(
            f"{name} holds secrets and may be read by others than its owner (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"run: chmod go= {argument(path)}",
        )
