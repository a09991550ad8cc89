# expect: value "blocked"
# proves: N1, E9
# tries: send datagrams to the host's loopback, the gateway, broadcast and multicast; resolve a name
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
UNREACHABLE = "ECONNREFUSED ENETUNREACH EADDRNOTAVAIL EHOSTUNREACH EACCES"
for address in ("@gateway@", "169.254.169.254", "1.1.1.1", "255.255.255.255", "224.0.0.251", "ff02::1", "2606:4700::1111"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        refused(address, UNREACHABLE, client.sendto, b"x", (address, int("@udp@")))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:  # the own loopback is there, the host's listener is not
    client.settimeout(3)
    client.connect(("127.0.0.1", int("@udp@")))
    client.send(b"x")
    refused("answer", "ECONNREFUSED", client.recv, 1)
    refused("bind to device", "ENOPROTOOPT", client.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0\0")
    refused("mark", "ENOPROTOOPT", client.setsockopt, socket.SOL_SOCKET, 36, 1)
    refused("transparent", "ENOPROTOOPT", client.setsockopt, socket.IPPROTO_IP, 19, 1)
try:
    wrong["dns"] = f"ESCAPED: {socket.getaddrinfo('example.com', 80)}"
except socket.gaierror:
    pass
wrong or "blocked"
