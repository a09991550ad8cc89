# expect: killed cpu_seconds
# without-cgroups: timeout 2
# proves: E4
# limits: cpu_seconds=1 wall_seconds=60
# tries: use more processor time than granted by a chain of processes, each of which uses little
import os, time
while True:
    if os.fork():
        os.wait()
        continue
    start = time.process_time()
    while time.process_time() - start < 0.1:
        pass
    os._exit(0)
