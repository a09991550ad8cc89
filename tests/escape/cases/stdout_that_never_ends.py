# expect: value 7
# proves: E4, E5
# limits: wall_seconds=20
# tries: keep the run from ending: leave its stdout in a message that the server has queued and never receives
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
time.sleep(0.2)  # until the server has read the report, and reads no more
socket.send_fds(channel, [b"x"], [1, 2])
os._exit(0)
