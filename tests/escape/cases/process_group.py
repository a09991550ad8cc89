# expect: value "blocked"
# proves: E9, P3
# tries: signal, slow down or adopt the process group and session it was born in: all of that must be its own sandbox's
import ctypes, os
wrong = {}
libc = ctypes.CDLL(None, use_errno=True)
if os.getpgrp() == 0 or os.getsid(0) == 0:  # a group whose number can't be named here was made outside
    wrong["born in"] = f"ESCAPED: group {os.getpgrp()}, session {os.getsid(0)}"
for pid, last in ((1, 3), (os.getpid(), 4)):  # who is not in a session can do nothing to it: that of 1 need not be its own
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    if "0" in fields[2:last]:
        wrong[f"{pid} was born in"] = f"ESCAPED: group and session {fields[2:4]}"
for attempt in (lambda: os.setpgid(0, 1), lambda: os.setpgid(1, 0), lambda: os.killpg(1, 0)) if os.getpgrp() != 1 else ():
    try:
        attempt()
        wrong["1"] = "ESCAPED: its group can be joined, or signalled"
    except OSError:
        pass
wrong or "blocked"
