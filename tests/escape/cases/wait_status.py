# expect: error signal
# proves: E2
# tries: write a wait status of its own to every descriptor it can reach, and die by a signal
import os, signal, struct
for name in os.listdir("/proc/self/fd"):
    for path in (f"/proc/1/fd/{name}", f"/proc/self/fd/{name}"):
        try:
            os.write(os.open(path, os.O_WRONLY), b"")
        except OSError:
            pass
for number in range(3, 64):
    try:
        os.write(number, struct.pack("i", 0))
    except OSError:
        pass
os.kill(os.getpid(), signal.SIGKILL)
