# expect: value "blocked"
# proves: E9
# tries: new namespaces by unshare, clone and clone3, each flag alone and with high bits set; join others by setns
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os
FLAGS = {
    "time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}
for name, flag in FLAGS.items():
    refused(f"unshare {name}", "EPERM", 272, ctypes.c_ulong(flag))
    refused(f"unshare {name} high", "EPERM", 272, ctypes.c_ulong(flag | 1 << 32))
    for high in (0, 1 << 32, 1 << 63):
        refused(f"clone {name} {high:x}", "EPERM", 56, ctypes.c_ulong(flag | high | 17), 0, 0, 0, 0)
arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
refused("clone3", "ENOSYS", 435, arguments, 88)
for name in os.listdir("/proc/self/ns"):
    descriptor = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    refused(f"setns {name}", "EPERM", 308, descriptor, 0)
refused("setns pidfd", "EPERM", 308, os.pidfd_open(1), 0x10000000)
wrong or "blocked"
