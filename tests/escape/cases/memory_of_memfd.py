# expect: killed memory_bytes
# without-cgroups: value "files of 16 MiB"
# proves: E4
# limits: memory_bytes=64MiB file_bytes=16MiB
# tries: fill memory by files without a name, which no file system's size bounds
import os
files = []
for _ in range(12):
    files.append(os.memfd_create("x"))
    for _ in range(16):
        os.write(files[-1], b"x" * (1 << 20))
"ESCAPED: 192 MiB" if "gloveport" in open("/proc/self/cgroup").read() else "files of 16 MiB"
