# expect: value "blocked"
# proves: E9, T4
# tries: learn from /proc what other sandboxes and the host lock, read, write and wait for
import errno, os
wrong = {}
names = ["locks", "diskstats", "interrupts", "softirqs", "schedstat", "sched_debug", "buddyinfo", "zoneinfo"]
names += ["key-users", "keys", "timer_list", "slabinfo", "vmallocinfo", "pagetypeinfo"]
names += [f"pressure/{kind}" for kind in ("cpu", "io", "memory", "irq")]
for name in names:
    try:
        with open(f"/proc/{name}", "rb") as file:
            wrong[name] = f"ESCAPED: {file.read(200)!r}"
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.ENOENT, errno.EPERM):
            wrong[name] = errno.errorcode[error.errno]
wrong or "blocked"
