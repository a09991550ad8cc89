# expect: value "blocked"
# proves: E9
# tries: gain a capability or another id: capset, ambient set, securebits, setuid, setgroups, no_new_privs off
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os
with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        wrong[name] = status[name]
if (status["NoNewPrivs"], status["Seccomp"]) != ("1", "2"):
    wrong["status"] = status
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
refused("capset", "EPERM", 126, header, data)
refused("ambient", "EPERM", 157, 47, 2, 21, 0, 0)
refused("securebits", "EPERM", 157, 28, 0, 0, 0, 0)
refused("no_new_privs off", "EINVAL", 157, 38, 0, 0, 0, 0)
refused("seccomp off", "EINVAL", 157, 22, 0, 0, 0, 0)
refused("mm", "EPERM EINVAL", 157, 35, 1, 0, 0, 0)
for uid in (0, 1, 65534, 1001):
    refused(f"setuid {uid}", "EPERM EINVAL", 105, uid)
    refused(f"setresuid {uid}", "EPERM EINVAL", 117, uid, uid, uid)
    refused(f"setresgid {uid}", "EPERM EINVAL", 119, uid, uid, uid)
refused("setgroups", "EPERM", 116, 1, (ctypes.c_uint32 * 1)(0))
if os.getresuid() != (1000, 1000, 1000) or libc.setfsuid(0) != 1000 or libc.setfsuid(1000) != 1000:
    wrong["ids"] = os.getresuid()
wrong or "blocked"
