"""Who is at the other end of a loopback connection: the kernel knows the user of every socket of this machine."""

import socket
import struct
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]

_TABLE = Path("/proc/net/tcp")
_ESTABLISHED = "01"


def peer_uid(peer: Address, own: Address) -> int | None:
    """Uid of the process that made a connection over IPv4 loopback, None when it can't be told.

    It can't when the peer has closed its end: then the kernel's table names root, whoever it was. Such an entry has no
    inode any more.

    Args:
        peer: The other end's address and port.
        own: Ours.
    """
    wanted = [_entry(peer), _entry(own)]
    for line in _TABLE.read_text().splitlines()[1:]:
        _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
        if [local, remote] == wanted and state == _ESTABLISHED and inode != "0":
            return int(uid)
    return None


def _entry(address: Address) -> str:
    """An address as the table has it: the four bytes as one number of this machine, and the port."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
