# expect: killed memory_bytes
# proves: E4
# limits: memory_bytes=64MiB processes=16 wall_seconds=60
# tries: fill the memory by many processes, none of which takes too much by itself
import os
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        block = bytearray(20 << 20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        import time
        time.sleep(30)
        os._exit(0)
    children.append(child)
"ESCAPED: 120 MiB together" if [os.waitpid(child, 0)[1] for child in children] == 6 * [0] else "they are too large for it"
