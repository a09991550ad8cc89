# expect: value "blocked"
# proves: E9, E5
# tries: get a descriptor of the server's process from the report's socket (SO_PEERPIDFD), and signal it or enter it
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import fcntl, signal, socket, struct
channel = next(
    socket.socket(fileno=os.dup(int(name)))
    for name in os.listdir("/proc/self/fd")
    if os.path.lexists(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
)
pid, uid, gid = struct.unpack("iii", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
if pid != 0:
    wrong["peer"] = pid
try:
    server = channel.getsockopt(socket.SOL_SOCKET, 77)
except OSError as error:
    if error.errno not in (errno.ENOPROTOOPT, errno.ESRCH, errno.EINVAL):
        wrong["SO_PEERPIDFD"] = str(error)
else:
    for number in (0, signal.SIGSTOP, signal.SIGKILL):
        refused(f"signal {number}", "EINVAL EPERM ESRCH", signal.pidfd_send_signal, server, number)
    refused("wait", "ECHILD EINVAL", os.waitid, os.P_PIDFD, server, os.WEXITED | os.WNOHANG)
    for number in range(1, 12):  # PIDFD_GET_CGROUP_NAMESPACE and the others
        refused(f"namespace {number}", "EPERM EACCES EINVAL ENOTTY ESRCH EOPNOTSUPP", fcntl.ioctl, server, 0xFF00 | number, 0)
refused("owner", "ESRCH EPERM", fcntl.fcntl, channel, fcntl.F_SETOWN, 1 << 21)
refused("forged credentials", "EPERM ESRCH EINVAL", channel.sendmsg, [b""], [(socket.SOL_SOCKET, 2, struct.pack("iii", 1 << 21, 0, 0))])
wrong or "blocked"
