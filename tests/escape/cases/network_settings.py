# expect: value "blocked"
# proves: E9, N1
# tries: add an address, a route or a firewall rule in its own network namespace; bind a low port
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    request = struct.pack("16sH2x4s8x", b"lo", socket.AF_INET, socket.inet_aton("10.9.8.7"))
    for name, number in (("SIOCSIFADDR", 0x8916), ("SIOCSIFFLAGS", 0x8914), ("SIOCSIFNETMASK", 0x891C), ("SIOCSIFMTU", 0x8922)):
        refused(name, "ENOTTY", fcntl.ioctl, client, number, request)
    refused("SIOCADDRT", "ENOTTY", fcntl.ioctl, client, 0x890B, bytes(120))
    refused("SIOCBRADDBR", "ENOTTY", fcntl.ioctl, client, 0x89A0, b"br0\0")
    refused("firewall", "ENOPROTOOPT", client.setsockopt, socket.IPPROTO_IP, 64, bytes(128))
    refused("multicast routing", "ENOPROTOOPT", client.setsockopt, socket.IPPROTO_IP, 200, 1)
with socket.socket() as server:
    refused("port 80", "EACCES", server.bind, ("127.0.0.1", 80))
    server.bind(("127.0.0.1", 0))
refused("tun", "ENOENT EACCES EPERM", os.open, "/dev/net/tun", os.O_RDWR)
wrong or "blocked"
