# takes: multicast memberships, of IPv4 and IPv6 by five options: made and torn down under the host's RTNL lock
# seconds: 20
# runs: 1
OPTIONS = (
    (socket.AF_INET, 0, 35, lambda group: bytes([239, *group]) + b"\x7f\0\0\1"),  # IP_ADD_MEMBERSHIP
    (socket.AF_INET, 0, 39, lambda group: bytes([239, *group]) + b"\x7f\0\0\1\x0a\0\0\1"),  # IP_ADD_SOURCE_MEMBERSHIP
    (socket.AF_INET, 0, 42, lambda group: struct.pack("<I4xHH4s120x", 1, 2, 0, bytes([239, *group]))),  # MCAST_JOIN_GROUP
    (socket.AF_INET6, 41, 20, lambda group: b"\xff\x02" + bytes(11) + bytes(group) + struct.pack("<I", 1)),
    (socket.AF_INET, 0, 48, lambda group: struct.pack("<I4xHH4s120xII", 1, 2, 0, bytes([239, *group]), 1, 1)
     + struct.pack("<HH4s120x", 2, 0, b"\x0a\0\0\1")),  # MCAST_MSFILTER
)


def work(index):
    sockets, refused, number = [], 0, 0
    for _ in range(scaled(240)):
        family, level, option, make = OPTIONS[number % len(OPTIONS)]
        try:
            sockets.append(socket.socket(family, socket.SOCK_DGRAM))
        except OSError:
            break
        for _ in range(20):
            number += 1
            try:
                sockets[-1].setsockopt(level, option, make((index, number >> 8 & 255, number & 255)))
                yield
            except OSError as error:
                refused, why = refused + 1, error
    if refused:
        raise why


swarm(work)
