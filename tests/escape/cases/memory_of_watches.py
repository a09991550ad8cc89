# expect: killed memory_bytes
# without-cgroups: value "held"
# proves: E4
# limits: memory_bytes=128MiB wall_seconds=80
# tries: have the kernel hold hundreds of thousands of watches, of one file each, in few descriptors
import os, re, select, time
pollers = [select.epoll() for _ in range(60)]
reading, writing = os.pipe()
for _ in range(50):
    copies = [os.dup(reading) for _ in range(100)]
    for poller in pollers:
        for copy in copies:
            poller.register(copy)
    os.close(writing)
    reading, writing = os.pipe()
    for copy in copies:
        os.close(copy)
if re.search(r"/run-[0-9a-f]{16}$", open("/proc/self/cgroup").read(), re.MULTILINE):  # a sandbox that has waited sees no more
    time.sleep(70)  # the kernel is asked what it can free, for eight seconds where it is busy, and again after sixteen
    "ESCAPED: they were held for as long as it liked"
"held"
