# expect: value "blocked"
# proves: E4, P8
# tries: keep pid 1 from a processor, so that it takes long to die: by policy, priority, processors, one by one or as a group
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = []
def attempt(name, action):
    try:
        action()
        got.append(name)
    except OSError:
        pass
attempt("policy", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("processors", lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("priority of the group", lambda: os.setpriority(os.PRIO_PGRP, 1, 19))
attempt("priority of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
if libc.syscall(251, 1, 1, 3 << 13) == 0:
    got.append("priority of input and output")
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
f"ESCAPED: {got}" if got else "blocked"
