# expect: value "refused by the filter"
# proves: E9
# tries: out-of-band data on a unix socket pair (CVE-2025-38236), by send, sendto, sendmsg
import errno
import socket

ours, theirs = socket.socketpair()
seen = set()
for attempt in (
    lambda: ours.send(b"x", socket.MSG_OOB),
    lambda: ours.sendmsg([b"x"], [], socket.MSG_OOB),
):
    try:
        attempt()
        seen.add("ESCAPED")
    except OSError as error:
        seen.add(error.errno)
ours.send(b"y")
assert theirs.recv(1) == b"y"
"refused by the filter" if seen == {errno.EPERM} else repr(seen)
