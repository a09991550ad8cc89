# expect: value 7
# proves: E2, E5
# tries: report, then go on: print, fork, write files, and end otherwise; the report is the end, or what follows is bounded
import json, os, socket
channel = next(
    socket.socket(fileno=os.dup(int(name)))
    for name in os.listdir("/proc/self/fd")
    if os.path.lexists(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
)


def frame(body):
    return len(body).to_bytes(4, "big") + body


def report(**fields):
    base = {"value": None, "value_type": None, "value_truncated": False, "error": None, "exit_code": 0}
    return frame(json.dumps({"report": base | fields}).encode())


import time
channel.sendall(report(value=7))
for _ in range(3):
    if os.fork() == 0:
        break
try:
    for number in range(20):
        print("still here", number, flush=True)
        time.sleep(0.01)
except BrokenPipeError:
    pass
os._exit(0)
