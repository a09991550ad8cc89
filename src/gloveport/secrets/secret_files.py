"""Reads secrets from files: whole, through one open descriptor, and only if nobody else could have written the file.

No error shows a file's content, nor its name, which the caller knows.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from gloveport.atomic_file import take_place, temporary_file
from gloveport.errors import ConfigError
from gloveport.late_pattern import late_pattern
from gloveport.real_paths import real

MOST_BYTES = 1 << 16

_INDEX = late_pattern(r"0|[1-9][0-9]{0,8}")
_NO_MEMBER = object()
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def open_safe(path: str) -> BinaryIO:
    """Open a file to read it.

    Raises:
        OSError: It can't be opened.
        ConfigError: It is no regular file, or may be changed by somebody other than this user and root.
    """
    # O_NONBLOCK: a FIFO under the name must not hang the request. Links are followed: mounted secrets are links.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _refuse_unsafe(os.fstat(descriptor))
    except ConfigError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_text(path: str) -> str:
    """Read the text of a file, without the newline that editors put at its end.

    Raises:
        ConfigError: It can't be read, is no regular file, is larger than ``MOST_BYTES``, may be changed by somebody
            other than this user and root, or is no text.
    """
    return decode_secret(_read(path))


def read_member(path: str, pointer: str) -> str:
    """Read the string that a JSON pointer (RFC 6901) finds in a JSON file.

    Raises:
        ConfigError: As ``read_text``; or the file is no JSON, or there is no string.
    """
    try:
        value: object = json.loads(_read(path))
    except (ValueError, RecursionError):
        raise ConfigError("the file is not JSON", hint="repair it, or name another source") from None
    for token in pointer.removeprefix("/").split("/"):
        value = _below(value, token.replace("~1", "/").replace("~0", "~"))
    if not isinstance(value, str):
        raise ConfigError("the pointer leads to no string", hint="name a member that is a string, as in #/api/key")
    return value


def replace(path: str, text: str) -> None:
    """Replace the text of an existing file, whole or not at all. The owner stays, the mode becomes 0600.

    Raises:
        ConfigError: It can't be written.
    """
    try:
        target = real(Path(path), strict=True)  # a symbolic link stays one
        status = target.stat()
        with temporary_file(target.parent, f"{text}\n".encode()) as new:
            os.chown(new, status.st_uid, status.st_gid, follow_symlinks=False)  # others may write here
            take_place(new, target)
    except OSError as error:
        hint = "make room there" if error.errno in _NO_ROOM else "make its directory writable for this user"
        raise ConfigError(f"the file can't be written: {error.strerror}", hint=hint) from error


def require_room(path: str, size: int) -> None:
    """Make sure that there is room for ``replace`` with a text of this size.

    Raises:
        ConfigError: There is none. Whatever else hinders ``replace``, that will tell.
    """
    try:
        with temporary_file(real(Path(path)).parent, bytes(size)):
            pass
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise ConfigError(f"the file can't be written anew: {error.strerror}", hint="make room there") from error


def decode_secret(data: bytes) -> str:
    """Decode a text, without one newline at its end. Raises ConfigError if it is not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(
            "it holds no UTF-8 text", hint="a secret is text: encode it, or name another source"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def _read(path: str) -> bytes:
    try:
        with open_safe(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the file can't be read: {error.strerror}", hint="put it there, and make it readable for this user"
        ) from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"the file is larger than {MOST_BYTES} bytes", hint="keep the secret alone in a file")
    return data


def _refuse_unsafe(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("it is not a regular file", hint="put a regular file in its place")
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            f"the file belongs to user id {status.st_uid}, who could change it",
            hint=f"make it this user's: chown {os.geteuid()}",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError("the file may be written by others than its owner", hint="take that away: chmod go-w")


def _below(value: object, token: str) -> object:
    """The member of that name; ``_NO_MEMBER`` where it does not exist."""
    match value:
        case dict():
            return value.get(token, _NO_MEMBER)
        case list() if _INDEX.fullmatch(token) and int(token) < len(value):
            return value[int(token)]
        case _:
            return _NO_MEMBER
