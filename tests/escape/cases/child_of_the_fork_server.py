# expect: value "blocked"
# proves: E5, P9, P12
# tries: give the sandbox's parent a child, dead or alive, that it knows nothing of and that keeps the namespace from ending
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
CLONE_PARENT, SIGCHLD = 0x8000, 17
made = []
for _ in range(3):
    pid = libc.syscall(56, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    made.append(pid)
"blocked" if set(made) == {-1} else f"ESCAPED: {made}"
