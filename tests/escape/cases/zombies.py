# expect: value "blocked"
# proves: E4
# limits: processes=24
# tries: a storm of zombies and orphans: they count as processes, and are gone with the run
import os
made = 0
while made < 500:
    try:
        child = os.fork()
    except BlockingIOError:
        break
    if child == 0:
        os._exit(0)
    made += 1
os.wait()
for _ in range(200):
    try:
        if os.fork() == 0:
            try:
                os.fork()
            finally:
                os._exit(0)
    except BlockingIOError:
        os.wait()
"blocked" if 5 < made <= 24 else f"ESCAPED: {made} zombies"
