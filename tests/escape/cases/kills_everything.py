# expect: error exit or error signal or error SystemExit
# proves: E5, E9
# tries: kill everything it can: -1, its group, pid 1, every number
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid in (1, 0, -1):
    for number in (signal.SIGTERM, signal.SIGKILL):
        if (pid, number) != (0, signal.SIGKILL):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass
for pid in range(2, 40000):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
os.kill(os.getpid(), signal.SIGKILL)
