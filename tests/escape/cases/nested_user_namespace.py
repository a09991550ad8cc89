# expect: value "blocked"
# proves: E9
# tries: a user namespace below one's own: by unshare, clone with and without other flags, by clone3, as threads
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os
USER = 0x10000000
for name, flags in {"alone": 0, "mount": 0x20000, "net": 0x40000000, "pid": 0x20000000, "all": 0x6E020000, "fs": 0x200, "files": 0x400}.items():
    refused(f"unshare {name}", "EPERM", 272, ctypes.c_ulong(USER | flags))
    for high in (0, 1 << 32):
        refused(f"clone {name}", "EPERM EINVAL", 56, ctypes.c_ulong(USER | flags | high | 17), 0, 0, 0, 0)
    refused(f"clone3 {name}", "ENOSYS", 435, (ctypes.c_uint64 * 11)(USER | flags, 0, 0, 0, 17), 88)
    refused(f"clone3 short {name}", "ENOSYS", 435, (ctypes.c_uint64 * 8)(USER | flags, 0, 0, 0, 17), 64)
refused("setns own", "EPERM", 308, os.open("/proc/self/ns/user", os.O_RDONLY), USER)
refused("parent namespace", "EPERM ENOTTY EINVAL", 16, os.open("/proc/self/ns/user", os.O_RDONLY), 0xB702)
for name in ("uid_map", "gid_map", "setgroups"):
    try:
        os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), b"allow" if name == "setgroups" else b"0 0 1")
        wrong[name] = "ESCAPED: written"
    except OSError:
        pass
if open("/proc/self/uid_map").read().split()[0] != "1000" or os.getresuid() != (1000,) * 3 or os.getresgid() != (1000,) * 3:
    wrong["ids"] = [open("/proc/self/uid_map").read(), os.getresuid(), os.getresgid()]
for name in ("setuid", "setgid"):
    for number in (0, 1, 65534):
        try:
            getattr(os, name)(number)
            wrong[name] = f"ESCAPED: {number}"
        except OSError:
            pass
if os.getgroups() not in ([], [65534], [1000]):
    wrong["groups"] = os.getgroups()
wrong or "blocked"
