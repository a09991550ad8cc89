"""The protocol between ``gloveport run`` and a server of the same user, and how they find each other.

    server → run   {"code_bytes": N}     the longest program that the server accepts
    run → server   {"request": {"language", "code", "limits", "environment"}, "json": bool, "encoding": str,
                    "terminals": [1, 2]}  which of its streams are terminals
    server → run   output                 bytes to be written to a stream
    server → run   {"exit_code": N} or {"error": text, "exit_code": N}, as the last frame
    run → server   the end                the run is cancelled

A frame is a byte of kind (0: JSON; 1 and 2: output for that stream), the length in four bytes, big-endian, and data.

The socket lies in the state directory, in a directory that only its owner may enter. Its name is a fingerprint of
installation and configuration, so a server with another configuration is not found. This module imports little, for
``run`` waits for it.
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
from gloveport.file_descriptors import LIST, closing
from gloveport.real_paths import real
from gloveport.user_directories import FILE_NAME, config_directory, state_directory

HEAD: Final = struct.Struct("!BI")
JSON: Final = 0
REQUEST_FIELDS: Final = ("language", "code", "limits", "environment")
"""The fields of a request: a server accepts only what the command line can express."""

_MOST_FILES: Final = 256
_MOST_BYTES: Final = 1 << 20

_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


def pack(message: Mapping[str, object]) -> bytes:
    """Make the frame of a JSON message."""
    data = json.dumps(message).encode()
    return HEAD.pack(JSON, len(data)) + data


def fingerprint(config_path: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Digest this installation and every possible file of the configuration; None if one can't be read. A project's
    file is looked for in ``cwd``.

    Raises:
        ConfigError: This user has no home directory.
    """
    if config_path is None and (named := environ.get("GLOVEPORT_CONFIG")):
        config_path = Path(named)
    operator = config_directory() / FILE_NAME if config_path is None else cwd / config_path
    paths = [operator, *sorted(operator.parent.glob("apis/*"))]
    if config_path is None:
        paths.append(real(cwd) / FILE_NAME)
    if len(paths) > _MOST_FILES:
        return None
    digest = hashlib.sha256()
    code = Path(gloveport.__file__).stat()
    digest.update(repr((gloveport.__file__, code.st_ino, code.st_mtime_ns, config_path is None)).encode())
    try:
        for path in paths:
            content = _read(path)
            if content is not None:
                digest.update(b"%d %s %d " % (len(bytes(path)), bytes(path), len(content)) + content)
    except OSError:
        return None
    return digest.hexdigest()


def _read(path: Path) -> bytes | None:
    """Read a file; None if there is none. Raises OSError for anything but a regular file, and for a large one."""
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
    """Directory of the sockets of this user's servers. Raises ConfigError if there is no state directory."""
    return state_directory(environ) / "serving"


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open the directory, which nobody but this user may enter.

    Raises:
        OSError: The directory does not exist, or others may enter it.
    """
    with closing(os.open(path, LIST)) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"{path} can be entered by others")
        yield descriptor


def names(directory: int) -> list[str]:
    """List the names of the sockets in an open directory."""
    return sorted(path.name for path in Path(f"/proc/self/fd/{directory}").iterdir())


def new_name(prefix: str) -> str:
    """A new name for a socket. Servers in two containers that share a state directory may have one process id."""
    return f"{prefix}-{os.urandom(8).hex()}"


def address(directory: int, name: str) -> str:
    """Make a path of a socket in an open directory, short enough for a socket's address wherever the directory lies."""
    return f"/proc/self/fd/{directory}/{name}"


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the peer is this user, by the kernel's credentials."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
