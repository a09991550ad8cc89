# expect: value "blocked"
# proves: E9, P3
# tries: signal, slow down or adopt the process group and session it was born in: all of that must be its own sandbox's
import ctypes, os
wrong = {}
libc = ctypes.CDLL(None, use_errno=True)
if os.getpgrp() == 0 or os.getsid(0) == 0:  # a group whose number can't be named here was made outside
    wrong["born in"] = f"ESCAPED: group {os.getpgrp()}, session {os.getsid(0)}"
for pid in (1, os.getpid()):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    if "0" in fields[2:4]:
        wrong[f"{pid} was born in"] = f"ESCAPED: group and session {fields[2:4]}"
wrong or "blocked"
