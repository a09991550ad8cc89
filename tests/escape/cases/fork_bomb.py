# expect: value "blocked"
# proves: E4
# limits: processes=24
# tries: fork until it is refused, then count
import os, signal
children, refused = [], False
for _ in range(1000):
    try:
        child = os.fork()
    except BlockingIOError:
        refused = True
        break
    if child == 0:
        signal.pause()
        os._exit(0)
    children.append(child)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"blocked" if refused and 5 < len(children) <= 24 else f"ESCAPED: {len(children)} children, refused: {refused}"
