# expect: value "blocked"
# proves: E5
# tries: outlive its run as a daemon: forked twice, a session of its own, no descriptors, signals ignored
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        os.closerange(0, 300)
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
"blocked"
