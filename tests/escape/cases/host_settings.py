# expect: value "blocked"
# proves: E9
# tries: change the machine: clock, host name, swap, accounting, quotas, log, power, terminal, every cache
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


buffer = ctypes.create_string_buffer(256)
refused("settimeofday", "EPERM", 164, buffer, 0)
refused("clock_settime", "EPERM", 227, 0, buffer)
refused("clock_adjtime", "EPERM", 305, 0, buffer)
refused("adjtimex", "EPERM", 159, buffer)
refused("sethostname", "EPERM", 170, b"x", 1)
refused("setdomainname", "EPERM", 171, b"x", 1)
refused("swapon", "EPERM", 167, b"/tmp/x", 0)
refused("swapoff", "EPERM", 168, b"/tmp/x")
refused("acct", "EPERM", 163, 0)
refused("quotactl", "EPERM", 179, 0, 0, 0, 0)
refused("quotactl_fd", "EPERM", 443, 0, 0, 0, 0)
refused("syslog", "EPERM", 103, 3, buffer, 256)
refused("reboot", "EPERM", 169, 0xFEE1DEAD, 672274793, 0, 0)
refused("vhangup", "EPERM", 153)
refused("sync", "EPERM", 162)
refused("syncfs", "EPERM", 306, 1)
refused("cachestat", "EPERM", 451, 0, buffer, buffer, 0)
import os, time
if os.uname().nodename != "gloveport":
    wrong["hostname"] = os.uname().nodename
wrong or "blocked"
