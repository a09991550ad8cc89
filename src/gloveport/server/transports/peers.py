"""Looks up the user at the other end of a loopback connection in the kernel.

The kernel is asked for exactly these sockets (sock_diag(7)). The table ``/proc/net/tcp``, for kernels without that, has
a line for every connection of this host: to read it at each connection lets any other user keep this process busy.
"""

import contextlib
import errno
import functools
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from gloveport.errors import ConfigError

Address: TypeAlias = tuple[str, int]
_Ends: TypeAlias = tuple[Address, Address]
"""A connection's addresses: the peer's, and ours."""

_TABLE = Path("/proc/net/tcp")
_ESTABLISHED: Final = 1
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=4BI")  # struct inet_diag_req_v2: family, protocol, extensions, -, states; and the id
_ID = struct.Struct("!HH4s12x4s12x4s8s")  # struct inet_diag_sockid: ports, addresses, interface, cookie (all ones: any)
_ANSWER = struct.Struct("=4B48sIIIII")  # struct inet_diag_msg: family, state, -, -, id, -, -, -, uid, inode
_ANSWER_BYTES: Final = 4096
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


_ALL_UIDS: Final = (1 << 32) - 1


def require_own_uid() -> None:
    """Refuse to tell users apart where our uid is also that of all users whom our user namespace does not know, as
    that of ``nobody`` in a container is on the host's network.

    Raises:
        ConfigError: It is.
    """
    mapped = sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
    unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    if mapped < _ALL_UIDS and os.geteuid() == unknown:
        raise ConfigError(
            f"uid {unknown} stands for all users whom this user namespace does not know: they could connect, too",
            hint="start it as another user of the container",
        )


def peer_uids(connections: Sequence[socket.socket]) -> list[int | None]:
    """Return the uids of the processes that made these connections over IPv4 loopback; None for an unknown one.

    It is unknown when the peer has closed or reset its end. What it has sent before can still be read then, while
    somebody else may have connected from the same port.

    Raises:
        OSError: The kernel can't be asked just now.
    """
    ends = {one: pair for one in connections if (pair := _ends_of(one)) is not None}
    found = dict(zip(ends, _look_up([*ends.values()]), strict=True))
    return [_uid_of(found.get(one)) if _ends_of(one) is not None else None for one in connections]


def has_closed(connection: socket.socket) -> bool:
    """Whether the other end of a connection over IPv4 loopback is closed. It is open if it has only ended its sending
    direction: then it still reads.

    Raises:
        OSError: The kernel can't be asked just now.
    """
    ends = _ends_of(connection)
    if ends is None:
        return True
    (peer,) = _look_up([ends])
    return peer is None or not peer.inode


def _ends_of(connection: socket.socket) -> _Ends | None:
    """The ends of a connection; None where the peer has reset it."""
    with contextlib.suppress(OSError):
        return connection.getpeername(), connection.getsockname()
    return None


class _Socket(NamedTuple):
    """What the kernel tells of a socket. Of a closed one it names root, whoever it was; that has no inode."""

    state: int
    uid: int
    inode: int


def _uid_of(peer: _Socket | None) -> int | None:
    return peer.uid if peer is not None and peer.state == _ESTABLISHED and peer.inode else None


def _look_up(connections: Sequence[_Ends]) -> list[_Socket | None]:
    """The sockets at the other ends."""
    if not _can_ask():
        return _read_table(connections)
    with _open() as kernel:
        return [_ask(kernel, peer, own) for peer, own in connections]


@functools.cache
def _can_ask() -> bool:
    """Whether this kernel finds a socket that is there: without the means it answers that there is none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            with _open() as kernel:
                return _ask(kernel, listener.getsockname(), ("0.0.0.0", 0)) is not None  # noqa: S104 - no peer
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            return False


def _open() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG)


def _ask(kernel: socket.socket, local: Address, remote: Address) -> _Socket | None:
    """The socket with these two ends; None where there is none."""
    ends = local[1], remote[1], socket.inet_aton(local[0]), socket.inet_aton(remote[0])
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + _ID.pack(*ends, b"", b"\xff" * 8)
    kernel.send(_HEAD.pack(_HEAD.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + request)
    answer = kernel.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)  # the kernel has answered within ``send``
    if _HEAD.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    _, state, _, _, found, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEAD.size)
    # A listening socket is found by its own end alone.
    return _Socket(state, uid, inode) if _ID.unpack(found)[:2] == ends[:2] else None


def _read_table(connections: Sequence[_Ends]) -> list[_Socket | None]:
    found: dict[tuple[str, str], _Socket | None] = {(_entry(peer), _entry(own)): None for peer, own in connections}
    for line in _TABLE.read_text().splitlines()[1:]:
        _, local, remote, state, rest = line.split(maxsplit=4)
        if (local, remote) in found:
            _, _, _, uid, _, inode, *_ = rest.split(maxsplit=6)
            found[local, remote] = _Socket(int(state, 16), int(uid), int(inode))
    return list(found.values())


def _entry(address: Address) -> str:
    """Write an address as the table does: the four bytes as one number in native byte order, and the port."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
