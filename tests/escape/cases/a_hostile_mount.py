# expect: value "blocked"
# proves: E9, T4
# mounts: hostile
# tries: leave through a mounted directory: its links, its sockets, a device and a setuid program in it, its files
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import socket, subprocess
if not {"secret", "up", "old", "link", "pipe", "stream", "datagram", "setuid", "writable"} <= set(os.listdir("/mnt/hostile")):
    wrong["evidence"] = os.listdir("/mnt/hostile")
for name in ("secret", "old", "link", "up@secret@", "../..@secret@"):
    refused(name, "ENOENT EACCES", open, f"/mnt/hostile/{name}")
for name in ("stream", "datagram"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        refused("socket", "EAFNOSUPPORT", socket.socket, socket.AF_UNIX, kind)
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        for end in socket.socketpair(socket.AF_UNIX, kind):
            refused("connect", "EISCONN EPROTOTYPE", end.connect, f"/mnt/hostile/{name}")
            if kind == socket.SOCK_STREAM:
                refused("send", "EISCONN", end.sendto, b"x", f"/mnt/hostile/{name}")
            else:
                end.sendto(b"x", f"/mnt/hostile/{name}")  # goes to the other end, whatever it says; the runner sees if not
    refused("datagrams", "EPERM", socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
if os.path.exists("/mnt/hostile/device"):
    refused("device", "EACCES EPERM", os.open, "/mnt/hostile/device", os.O_RDONLY)
try:
    done = subprocess.run(["/mnt/hostile/setuid"], capture_output=True, text=True)
    wrong["setuid"] = f"ESCAPED: it ran: {done}"
except PermissionError:
    pass
for name in ("writable", "new"):
    refused(f"write {name}", "EROFS EACCES", os.open, f"/mnt/hostile/{name}", os.O_WRONLY | os.O_CREAT)
for attempt in (os.unlink, os.truncate):
    refused(attempt.__name__, "EROFS EACCES", attempt, "/mnt/hostile/writable", *([0] if attempt is os.truncate else []))
refused("chmod", "EROFS EPERM", os.chmod, "/mnt/hostile/writable", 0o600)
refused("pipe", "EROFS EACCES EPERM ENXIO", os.open, "/mnt/hostile/pipe", os.O_WRONLY | os.O_NONBLOCK)
refused("rename", "EROFS EACCES EXDEV EPERM", os.rename, "/mnt/hostile/writable", "/tmp/x")
wrong or "blocked"
