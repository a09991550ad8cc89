# expect: value "blocked"
# proves: E9, E5
# runs: 2
# tries: reach another sandbox of the same fork server: by loopback, abstract names, shared memory, locks, process numbers
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import fcntl, mmap, signal, socket
for port in (1, 80, 4321, 8000):
    with socket.socket() as attempt:
        refused(f"port {port}", "ECONNREFUSED", attempt.connect, ("127.0.0.1", port))
listener = socket.create_server(("127.0.0.1", 4321))  # free: no other sandbox has the same loopback
refused("abstract", "EAFNOSUPPORT EPERM", socket.socket, socket.AF_UNIX)
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
if pids[0] != 1 or len(pids) > 3:
    wrong["processes"] = pids
for pid in range(1, 5000):
    if pid not in pids:
        refused(f"pid {pid}", "ESRCH", os.kill, pid, 0)
refused("session", "ESRCH", os.getsid, 400)
refused("broadcast of a group", "ESRCH EPERM", os.killpg, 4000, 0)
for path in ("/run/gloveport/guest/zygote.py", "/usr/bin/env", "/etc/passwd"):
    if os.path.exists(path):
        with open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                wrong[path] = f"locked by another: {error}"
# Memory shared with the fork server is copied when it is written: nothing of it reaches the next.
import sys, json
if hasattr(json, "marked"):
    wrong["module"] = "ESCAPED: marked by another"
json.marked = True
sys.modules["marked"] = json
for line in open("/proc/self/maps"):
    if " rw-s " in line or "memfd:" in line or "/SYSV" in line or "(deleted)" in line:
        wrong["mapping"] = f"ESCAPED: {line.strip()}"
wrong or "blocked"
