# expect: error exit
# proves: E2, E9
# tries: send on the channel what the host sends to a fork server, with sockets of its own
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


ours, theirs = socket.socketpair()
body = frame(json.dumps({"fork": {}}).encode())
socket.send_fds(channel, [body], [theirs.fileno(), theirs.fileno()])
ours.settimeout(0.3)
try:
    answer = ours.recv(100)
    print("ESCAPED", answer)
except TimeoutError:
    pass
os._exit(3)
