# expect: value null
# proves: E4, E5
# limits: wall_seconds=20
# tries: keep the run from ending: leave stdout and the report's socket in a circle of sockets that nobody can reach
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


left, right = socket.socketpair()
socket.send_fds(left, [b"x"], [channel.fileno(), 1, 2, left.fileno(), right.fileno()])
os._exit(0)
