# expect: value 7
# proves: E2
# tries: two reports in one write, the second another one, and garbage behind them
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


channel.sendall(report(value=7) + report(value="ESCAPED") + os.urandom(4096))
os._exit(0)
