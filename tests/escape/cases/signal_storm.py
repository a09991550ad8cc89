# expect: timeout
# proves: E4
# limits: wall_seconds=1
# tries: queue signals and start timers without end
import os, signal, time
for number in range(signal.SIGRTMIN, signal.SIGRTMAX):
    signal.signal(number, lambda *_: None)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.00001, 0.00001)
import ctypes
libc = ctypes.CDLL(None)
while True:
    libc.sigqueue(os.getpid(), signal.SIGRTMIN + 1, 0)
