# expect: error exit
# proves: E4
# tries: make the server parse a report of five million empty lists, which took it a gigabyte and eight seconds
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


try:
    channel.sendall(frame(b'{"report": {"value": [[]' + b",[]" * 5_000_000 + b"]}}"))
except OSError:
    os._exit(1)
os._exit(0)
