"""Looks up the user at the other end of a loopback connection in the kernel's table of sockets."""

import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]

_TABLE = Path("/proc/net/tcp")
_ESTABLISHED = "01"


def peer_uids(connections: Sequence[tuple[Address, Address]]) -> list[int | None]:
    """Return the uids of the processes that made these connections over IPv4 loopback (the peer's address and port, and
    ours); None for an unknown one.

    It is unknown when the peer has closed its end: the kernel's table then names root, whoever it was; such an entry
    has no inode. The table has a line for every connection of this host, so it is read once for all connections.
    """
    found: dict[tuple[str, str], int | None] = {(_entry(peer), _entry(own)): None for peer, own in connections}
    for line in _TABLE.read_text().splitlines()[1:]:
        _, local, remote, state, rest = line.split(maxsplit=4)
        if (local, remote) in found and state == _ESTABLISHED:
            _, _, _, uid, _, inode, *_ = rest.split(maxsplit=6)
            found[local, remote] = int(uid) if inode != "0" else None
    return list(found.values())


def _entry(address: Address) -> str:
    """Write an address as the table does: the four bytes as one number in native byte order, and the port."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
