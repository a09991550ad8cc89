# expect: timeout
# proves: E2, E4
# limits: wall_seconds=1
# tries: keep the server waiting for a report whose bytes never come to an end
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
for byte in (1 << 18).to_bytes(4, "big") + b'{"report": ' + b" " * 1000:
    channel.sendall(bytes([byte]))
    time.sleep(0.01)
