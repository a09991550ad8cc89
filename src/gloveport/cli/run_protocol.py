"""What ``gloveport run`` and a server of the same user say to each other, and how they find each other.

    server → run   {"code_bytes": N}     the longest program that it takes
    run → server   {"request": {"language", "code", "limits", "environment"}, "json": bool, "encoding": str,
                    "terminals": [1, 2]}  which of its streams are terminals
    server → run   output                 what is to be written to a stream
    server → run   {"exit_code": N} or {"error": text, "exit_code": N}, as the last frame
    run → server   the end                it is wanted no more

A frame is a kind (0: JSON; 1 and 2: output for that stream), four bytes of length, most significant first, and so much.

The socket lies in a directory of the state that only its owner may enter, under a fingerprint of the installation and
of the configuration: a server with another one is not found. This module imports little, for ``run`` waits for it.
"""

import contextlib
import hashlib
import json
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Final

import gloveport
from gloveport.user_directories import FILE_NAME, config_directory, state_directory

HEAD: Final = struct.Struct("!BI")
JSON: Final = 0
ASKED: Final = ("language", "code", "limits", "environment")
"""All that a request can say: a server takes no more than the command line has."""

_MOST_FILES: Final = 256
_MOST_BYTES: Final = 1 << 20

_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


def pack(message: Mapping[str, object]) -> bytes:
    """The frame of a JSON message."""
    data = json.dumps(message).encode()
    return HEAD.pack(JSON, len(data)) + data


def fingerprint(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Digest of this installation and of every file that the configuration can come from; None where one can't be read.

    Args:
        given: The file that was named on the command line.
        cwd: Where a project file would lie.
        environ: Where ``GLOVEPORT_CONFIG`` is looked up.

    Raises:
        ConfigError: This user has no home directory.
    """
    if given is None and (named := environ.get("GLOVEPORT_CONFIG")):
        given = Path(named)
    operator = config_directory() / FILE_NAME if given is None else cwd / given
    paths = [operator, *sorted(operator.parent.glob("apis/*"))]
    if given is None:
        paths.append(cwd.resolve() / FILE_NAME)
    if len(paths) > _MOST_FILES:
        return None
    digest = hashlib.sha256()
    code = Path(gloveport.__file__).stat()
    digest.update(repr((gloveport.__file__, code.st_ino, code.st_mtime_ns, given is None)).encode())
    try:
        for path in paths:
            content = _read(path)
            if content is not None:
                digest.update(b"%d %s %d " % (len(bytes(path)), bytes(path), len(content)) + content)
    except OSError:
        return None
    return digest.hexdigest()


def _read(path: Path) -> bytes | None:
    """A file's content; None where nothing has that name. Raises OSError for what is no file, and for a large one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with FileIO(descriptor) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise OSError
        return file.readall()


def socket_directory(environ: Mapping[str, str]) -> Path:
    """Directory of the sockets of this user's servers.

    Raises:
        ConfigError: There is no state directory.
    """
    return state_directory(environ) / "serving"


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """A descriptor of the directory, which nobody but this user may enter.

    Raises:
        OSError: It is not there, or somebody else may enter it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"{path} can be entered by others")
        yield descriptor
    finally:
        os.close(descriptor)


def names(directory: int) -> list[str]:
    """Names of the sockets in an open directory."""
    return sorted(path.name for path in Path(f"/proc/self/fd/{directory}").iterdir())


def address(directory: int, name: str) -> str:
    """Path of a socket in an open directory: no longer than a socket's may be, wherever the directory lies."""
    return f"/proc/self/fd/{directory}/{name}"


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether who is at the other end is this user, as the kernel tells it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
