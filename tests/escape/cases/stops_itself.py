# expect: timeout
# proves: E4, E5
# limits: wall_seconds=1
# tries: hang the run by stopping itself and its parent
import contextlib, os, signal
with contextlib.suppress(PermissionError):
    os.kill(1, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
