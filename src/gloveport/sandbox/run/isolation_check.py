"""Waits for a sandbox's isolation report, and refuses the sandbox if a wall is missing."""

import contextlib
import socket

from gloveport.errors import GuestError, SandboxError
from gloveport.model.json_value import JsonValue
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.sandbox.base import Directories, IsolationReport
from gloveport.sandbox.run import frames


async def expect_isolation(
    channel: socket.socket,
    stack: contextlib.ExitStack,
    *,
    landlock_abi: int,
    mount_identities: tuple[tuple[int, int], ...] = (),
) -> tuple[IsolationReport, int, Directories]:
    """The isolation report, the reporting process, and the directories of its sandbox, which ``stack`` closes.
    ``mount_identities`` are device and inode of each bind's source, as found before the start; empty if another process
    has reported the mounts.

    Raises:
        SandboxError: Names the missing wall.
        GuestError: It did not report, or is dead.
    """
    message, pid, directories = await frames.expect_ready(channel, stack)
    return _check(message.get("ready"), landlock_abi, mount_identities), pid, directories


def _check(ready: JsonValue, landlock_abi: int, mount_identities: tuple[tuple[int, int], ...]) -> IsolationReport:
    try:
        walls = read_value(IsolationReport, ready)
    except WrongShapeError as error:
        raise GuestError("its first process did not tell what is in force") from error
    for wall in ("seccomp", "no_new_privs", "no_capabilities"):
        if not getattr(walls, wall):
            raise SandboxError(f"inside the sandbox {wall} is not in force", hint="`gloveport doctor` tells why")
    if walls.landlock < landlock_abi:
        raise SandboxError(
            f"Landlock ABI {landlock_abi} is demanded, the kernel enforces {walls.landlock or 'none'}",
            hint="boot a kernel with CONFIG_SECURITY_LANDLOCK and `landlock` in its lsm= list, "
            "or lower sandbox.landlock_abi",
        )
    if walls.mounts != mount_identities:  # bubblewrap follows links, and somebody may have put one there meanwhile
        raise SandboxError(
            "what is mounted in the sandbox is not what was named",
            hint="see who can change the mounts' directories",
        )
    return walls
