# expect: value "blocked"
# proves: E9, N1
# tries: sockets that leave the sandbox or reach rare kernel code: unix, netlink, packet, raw, vsock, AF_ALG, SCTP, MPTCP
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import socket
NAMES = {
    "unix": 1, "ax25": 3, "ipx": 4, "x25": 9, "netlink": 16, "packet": 17, "rds": 21, "can": 29, "tipc": 30, "bluetooth": 31,
    "rxrpc": 33, "alg": 38, "nfc": 39, "vsock": 40, "kcm": 41, "qipcrtr": 42, "smc": 43, "xdp": 44, "mctp": 45,
}
for name, family in NAMES.items():
    for kind in (1, 2, 3, 5):
        for high in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK):
            refused(f"{name} {kind}", "EAFNOSUPPORT", socket.socket, family, kind | high)
for family in (socket.AF_INET, socket.AF_INET6):
    for name, kind, protocol in (
        ("raw", 3, 1), ("raw ip", 3, 255), ("sctp", 1, 132), ("sctp packets", 5, 132), ("mptcp", 1, 262), ("dccp", 6, 33),
        ("udplite", 2, 136), ("ping", 2, 1), ("ping6", 2, 58), ("packet", 10, 0), ("l2tp", 2, 115),
    ):
        refused(f"{name} {family}", "EPERM", socket.socket, family, kind, protocol)
refused("datagram pair", "EPERM", socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
refused("internet pair", "EAFNOSUPPORT", socket.socketpair, socket.AF_INET, socket.SOCK_STREAM)
ends = [*socket.socketpair(), *socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]
for end in ends:
    for address in ("\0@abstract@", "/tmp/x"):
        refused("connect a pair", "EISCONN EINVAL ENOENT ECONNREFUSED", end.connect, address)
        if end.type == socket.SOCK_STREAM:
            refused("send from a pair", "EISCONN", end.sendto, b"x", address)
refused("ulp", "ENOPROTOOPT", socket.socket().setsockopt, 6, 31, b"tls")
wrong or "blocked"
