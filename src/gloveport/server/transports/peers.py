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
    """Uids of the processes that made these connections over IPv4 loopback, None for one that can't be told.

    It can't when the peer has closed its end: then the kernel's table names root, whoever it was. Such an entry has no
    inode any more. The table has a line for every connection of this host, so it is read once for all of them.

    Args:
        connections: The other end's address and port, and ours.
    """
    found: dict[tuple[str, str], int | None] = {(_entry(peer), _entry(own)): None for peer, own in connections}
    for line in _TABLE.read_text().splitlines()[1:]:
        _, local, remote, state, rest = line.split(maxsplit=4)
        if (local, remote) in found and state == _ESTABLISHED:
            _, _, _, uid, _, inode, *_ = rest.split(maxsplit=6)
            found[local, remote] = int(uid) if inode != "0" else None
    return list(found.values())


def _entry(address: Address) -> str:
    """An address as the table has it: the four bytes as one number of this machine, and the port."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
