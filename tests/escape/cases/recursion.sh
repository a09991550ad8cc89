# expect: error exit or error signal or killed memory_bytes or timeout
# proves: E4
# limits: memory_bytes=128MiB wall_seconds=2
# tries: call itself without end
f() { f; }
f
