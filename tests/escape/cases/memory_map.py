# expect: killed memory_bytes
# without-cgroups: value "refused by the process's own limit"
# proves: E4
# limits: memory_bytes=64MiB
# tries: map and touch memory that is no heap
import mmap
try:
    for _ in range(64):
        memory = mmap.mmap(-1, 64 << 20)
        for place in range(0, 64 << 20, 4096):
            memory[place] = 1
        keep = globals().setdefault("kept", [])
        keep.append(memory)
    result = "ESCAPED: four gigabytes"
except (OSError, MemoryError):
    result = "refused by the process's own limit"
result
