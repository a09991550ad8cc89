# expect: value "blocked"
# proves: E2, E4
# tries: forge reports of a wrong shape, one child after another; only the first frame counts, and it must have the shape
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


import random
shapes = [
    b"null", b"[]", b"1e999", b'{"report": null}', b'{"report": {"value": 1}}', b'{"report": []}', b'{"report": {"exit_code": "x"}}',
]
channel.sendall(report(value="blocked", value_type=None))
for shape in shapes:
    channel.sendall(frame(shape))
channel.sendall(report(value="ESCAPED: the last frame counted"))
os._exit(0)
