# expect: value "blocked"
# proves: E4, E5
# limits: memory_bytes=256MiB
# tries: leave a tree so deep that removing it takes the host long
import os, time
os.chdir("/tmp")
deadline, depth = time.monotonic() + 10, 0
while time.monotonic() < deadline and depth < 3_000:
    os.mkdir("d")
    os.chdir("d")
    depth += 1
"blocked" if depth > 1000 else f"only {depth} deep"
