"""Socket options that programs may set or read: data only. ``filter_rules`` turns it into rules of the filter.

An option is allowed when it concerns one socket alone. What is left out, and why:

- Memberships in multicast groups, flow labels, packet options and headers: each is an object of the kernel's, kept in
  lists under locks of the whole host. To tear down a million memberships stopped the host's network for minutes.
- Filters and programs on a socket (``SO_ATTACH_*``), protocols on it (``TCP_ULP``), zero copy: ways into the kernel.
- Time stamps, encapsulation, GRO, MD5, least TTL: the first socket with one changes the kernel's code for everybody.
- Process descriptors of the other end (``SO_PEERPIDFD``): the other end may be the server.
"""

from collections.abc import Mapping
from typing import NamedTuple

SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6 = 1, 0, 6, 17, 41


class Options(NamedTuple):
    """The options of one level: name → number, as in the kernel's ``asm-generic/socket.h`` and ``linux/in.h``."""

    settable: Mapping[str, int]
    """May be set, and read."""

    readable: Mapping[str, int]
    """May be read."""


BUFFERS: Mapping[str, int] = {"SO_SNDBUF": 7, "SO_RCVBUF": 8}
"""Of ``SOL_SOCKET``. Setting one succeeds and changes nothing: what waits in a connection that nobody has accepted yet
belongs to no cgroup, so how much that can be is the network namespace's to say."""

OPTIONS: Mapping[int, Options] = {
    SOL_SOCKET: Options(
        settable={
            "SO_REUSEADDR": 2,
            "SO_DONTROUTE": 5,
            "SO_BROADCAST": 6,
            "SO_KEEPALIVE": 9,
            "SO_OOBINLINE": 10,
            "SO_PRIORITY": 12,
            "SO_LINGER": 13,
            "SO_REUSEPORT": 15,
            "SO_PASSCRED": 16,
            "SO_RCVLOWAT": 18,
            "SO_RCVTIMEO": 20,
            "SO_SNDTIMEO": 21,
            "SO_RCVTIMEO_NEW": 66,
            "SO_SNDTIMEO_NEW": 67,
        },
        readable={
            "SO_DEBUG": 1,
            "SO_TYPE": 3,
            "SO_ERROR": 4,
            **BUFFERS,
            "SO_PEERCRED": 17,
            "SO_SNDLOWAT": 19,
            "SO_ACCEPTCONN": 30,
            "SO_PROTOCOL": 38,
            "SO_DOMAIN": 39,
            "SO_INCOMING_CPU": 49,
            "SO_MEMINFO": 55,
            "SO_COOKIE": 57,
        },
    ),
    IPPROTO_IP: Options(
        settable={
            "IP_TOS": 1,
            "IP_TTL": 2,
            "IP_PKTINFO": 8,
            "IP_MTU_DISCOVER": 10,
            "IP_RECVERR": 11,
            "IP_RECVTTL": 12,
            "IP_RECVTOS": 13,
            "IP_FREEBIND": 15,
            "IP_BIND_ADDRESS_NO_PORT": 24,
        },
        readable={"IP_MTU": 14},
    ),
    IPPROTO_IPV6: Options(
        settable={
            "IPV6_UNICAST_HOPS": 16,
            "IPV6_MTU_DISCOVER": 23,
            "IPV6_RECVERR": 25,
            "IPV6_V6ONLY": 26,
            "IPV6_RECVPKTINFO": 49,
            "IPV6_RECVHOPLIMIT": 51,
            "IPV6_DONTFRAG": 62,
            "IPV6_RECVTCLASS": 66,
            "IPV6_TCLASS": 67,
        },
        readable={"IPV6_MTU": 24},
    ),
    IPPROTO_TCP: Options(
        settable={
            "TCP_NODELAY": 1,
            "TCP_MAXSEG": 2,
            "TCP_CORK": 3,
            "TCP_KEEPIDLE": 4,
            "TCP_KEEPINTVL": 5,
            "TCP_KEEPCNT": 6,
            "TCP_SYNCNT": 7,
            "TCP_LINGER2": 8,
            "TCP_DEFER_ACCEPT": 9,
            "TCP_WINDOW_CLAMP": 10,
            "TCP_QUICKACK": 12,
            "TCP_USER_TIMEOUT": 18,
            "TCP_NOTSENT_LOWAT": 25,
            "TCP_INQ": 36,
        },
        readable={"TCP_INFO": 11, "TCP_CONGESTION": 13},
    ),
    IPPROTO_UDP: Options(settable={"UDP_CORK": 1}, readable={}),
}
"""By level."""
