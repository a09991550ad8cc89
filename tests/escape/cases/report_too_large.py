# expect: error exit
# proves: E4
# tries: answer with ten megabytes, where an answer may have a few kilobytes
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
    channel.sendall(report(value="ESCAPED" * 1_500_000))
except OSError:
    os._exit(1)
os._exit(0)
