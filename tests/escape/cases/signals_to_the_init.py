# expect: error signal or error exit or value "blocked"
# proves: E5, E9
# limits: wall_seconds=20
# tries: every signal to the init, queued with a forged sender and value, and by process descriptor; nothing may hang
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
descriptor = os.pidfd_open(1)
information = (ctypes.c_int * 32)()
for number in range(1, 65):
    information[0], information[2] = number, -1  # si_signo, si_code SI_QUEUE
    for attempt in (
        lambda: os.kill(1, number),
        lambda: signal.pidfd_send_signal(descriptor, number),
        lambda: libc.syscall(129, 1, number, information),
        lambda: libc.syscall(297, 1, 1, number, information),
        lambda: libc.syscall(200, 1, number),
    ):
        try:
            attempt()
        except OSError:
            pass
state = next(line.split()[1] for line in open("/proc/1/status") if line.startswith("State"))
"blocked" if state in "SR" else f"ESCAPED: the init is {state}"
