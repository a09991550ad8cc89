# expect: timeout
# proves: E4, E5
# limits: wall_seconds=1
# tries: outlive its time by ignoring and blocking every signal, in every process, in sessions of their own
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        break
while True:
    time.sleep(1000)
