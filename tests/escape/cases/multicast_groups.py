# expect: value "blocked"
# proves: E9
# tries: join multicast groups in each way there is: to tear down a million memberships stops the host's network
import errno, socket, struct
here, group = socket.inet_aton("127.0.0.1"), socket.inet_aton("239.1.2.3")
group6, six = socket.inet_pton(socket.AF_INET6, "ff02::123"), socket.AF_INET6
address = struct.pack("=HH4s8x", socket.AF_INET, 0, group).ljust(128, b"\0")
address6 = struct.pack("=HHI16sI", six, 0, 0, group6, 0).ljust(128, b"\0")
ways = {
    "join": (0, 35, group + here),
    "join by index": (0, 35, group + here + struct.pack("i", 1)),
    "from one source": (0, 39, group + here + here),
    "filter of sources": (0, 41, group + here + struct.pack("II", 1, 1) + here),
    "join (any family)": (0, 42, struct.pack("I4x", 1) + address),
    "source (any family)": (0, 46, struct.pack("I4x", 1) + address + address),
    "filter (any family)": (0, 48, struct.pack("I4x", 1) + address + struct.pack("II", 1, 1) + address),
    "join 6": (41, 20, group6 + struct.pack("i", 1)),
    "join 6 (any family)": (41, 42, struct.pack("I4x", 1) + address6),
    "anycast": (41, 27, group6 + struct.pack("i", 1)),
    "flow label": (41, 32, bytes(32)),
}
wrong = {}
for name, (level, option, value) in ways.items():
    family = six if level == 41 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        try:
            one.setsockopt(level, option, value)
            wrong[name] = "JOINED"
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:
                wrong[name] = errno.errorcode[error.errno]
with open("/proc/sys/net/ipv4/igmp_max_memberships") as most:
    if most.read() != "0\n":
        wrong["setting"] = "open"
str(wrong) if wrong else "blocked"
