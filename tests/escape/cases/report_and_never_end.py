# expect: value 7 or timeout
# proves: E2, E5
# limits: wall_seconds=1
# tries: report and sleep for ever, with children that do too
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


import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(5):
    if os.fork() == 0:
        time.sleep(1000)
channel.sendall(report(value=7))
time.sleep(1000)
