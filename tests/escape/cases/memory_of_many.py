# expect: killed memory_bytes
# without-cgroups: value "each by itself"
# proves: E4
# limits: memory_bytes=64MiB processes=16 wall_seconds=60
# tries: fill the memory by many processes, none of which takes too much by itself
import os
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        block = bytearray(b"x" * (24 << 20))
        import time
        time.sleep(1)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"ESCAPED: 144 MiB together" if open("/proc/self/cgroup").read().count("gloveport") else "each by itself"
