# expect: killed memory_bytes
# without-cgroups: error MemoryError
# proves: E4
# limits: memory_bytes=64MiB
# tries: fill the heap
blocks = []
while len(blocks) < 4096:
    blocks.append(b"x" * (1 << 20))
"ESCAPED: four gigabytes"
