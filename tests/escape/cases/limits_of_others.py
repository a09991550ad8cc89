# expect: value "blocked"
# proves: E4, E9
# tries: raise its own limits, lower its core limit, change those of pid 1 to its gain, take real-time priority
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import resource
for name in ("NPROC", "NOFILE", "FSIZE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "CPU"):
    number = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.getrlimit(number)
    if hard == resource.RLIM_INFINITY:
        wrong[name] = "ESCAPED: unlimited"
        continue
    for pid in (0, 1):
        try:
            resource.prlimit(pid, number, (hard + 1, hard + 1))
            if pid == 0 or resource.prlimit(0, number) != (soft, hard):
                wrong[f"{name} of {pid}"] = "ESCAPED: raised"
        except (PermissionError, ValueError):
            pass
for value in ((1, 1), (0, 0), (0, 1), (-1, -1)):  # which succeeds and does nothing
    resource.setrlimit(resource.RLIMIT_CORE, value)
    if resource.getrlimit(resource.RLIMIT_CORE) != (1, 1):
        wrong[f"core {value}"] = f"ESCAPED: {resource.getrlimit(resource.RLIMIT_CORE)}"
refused("nice", "EPERM EACCES", os.nice, -5)
for name in ("FIFO", "RR"):
    refused(name, "EPERM", os.sched_setscheduler, 0, getattr(os, f"SCHED_{name}"), os.sched_param(1))
refused("oom", "EACCES EROFS EPERM", open, "/proc/self/oom_score_adj", "w")
wrong or "blocked"
