# expect: value "blocked"
# proves: E9
# tries: type into the terminal of whoever started the server: TIOCSTI, TIOCLINUX, also with high bits, /dev/tty, console
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os, pty
try:
    os.open("/dev/tty", os.O_RDWR)
    wrong["/dev/tty"] = "ESCAPED: there is a controlling terminal"
except OSError as error:
    if error.errno not in (errno.ENXIO, errno.ENOENT, errno.EACCES):
        wrong["/dev/tty"] = str(error)
for name in ("console", "tty0", "tty1", "ttyS0", "vcs", "vcsa"):
    if os.path.exists(f"/dev/{name}"):
        wrong[name] = "ESCAPED: it is there"
master, slave = pty.openpty()
byte = ctypes.create_string_buffer(b"x")
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423)):
    for high in (0, 1 << 32, 0xFFFFFFFF << 32):
        refused(f"{name} {high:x}", "EPERM", 16, slave, ctypes.c_ulong(request | high), byte)
wrong or "blocked"
