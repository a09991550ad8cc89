# expect: value "blocked"
# proves: E4
# tries: send urgent data over the report's socket: a byte that can't be read but keeps the socket readable
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
try:
    channel.send(b"x", socket.MSG_OOB)
except OSError:
    pass
time.sleep(0.3)
"blocked"
