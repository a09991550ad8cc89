# expect: value "blocked"
# proves: E9, E5
# tries: see, signal, open or adopt processes of the host; the runner itself is one
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import signal
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
if len(pids) > 3 or os.getpid() not in pids:
    wrong["visible"] = pids
host = int("@pid@")
if host in pids:
    host = 1 << 21
refused("kill", "ESRCH", os.kill, host, 0)
refused("pidfd", "ESRCH EINVAL", os.pidfd_open, host)
refused("environ", "ENOENT", open, f"/proc/{host}/environ")
refused("parent", "EPERM ESRCH", os.setpgid, 0, host)
for pid in range(2, 32768, 1):
    if pid not in pids:
        try:
            os.kill(pid, 0)
            wrong[pid] = "ESCAPED: it exists"
        except ProcessLookupError:
            pass
wrong or "blocked"
