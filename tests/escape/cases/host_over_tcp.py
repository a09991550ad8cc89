# expect: value "blocked"
# proves: N1, E9
# tries: connect to a listener on the host's loopback, to the gateway, the cloud's metadata and a public address
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
targets = [("127.0.0.1", "@tcp@"), ("127.0.0.2", "@tcp@"), ("0.0.0.0", "@tcp@"), ("::1", "@tcp@"), ("::ffff:127.0.0.1", "@tcp@")]
targets += [("@gateway@", "80"), ("@gateway@", "53"), ("169.254.169.254", "80"), ("1.1.1.1", "443"), ("2606:4700::1111", "443"), ("10.0.0.1", "22")]
for address, port in targets:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client:
        client.settimeout(3)
        refused(address, UNREACHABLE, client.connect, (address, int(port)))
        with socket.socket(client.family) as fast:  # data in the first packet
            refused(f"fast {address}", UNREACHABLE + " EPIPE ENOTSUP", fast.sendto, b"x", socket.MSG_FASTOPEN, (address, int(port)))
interfaces = open("/proc/net/dev").read().split("\n")[2:]
if [line.split(":")[0].strip() for line in interfaces if line] != ["lo"]:
    wrong["interfaces"] = interfaces
wrong or "blocked"
