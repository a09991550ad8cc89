# expect: error MemoryError or killed memory_bytes
# proves: E4
# limits: memory_bytes=64MiB
# tries: return a value that is larger than the memory it may use
"x" * (1 << 40)
