# expect: value "blocked"
# proves: E2
# tries: forge the report of the whole run from a child, in the name of its parent; it is the program's own word at most
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


child = os.fork()
if child == 0:
    channel.sendall(report(value="blocked", exit_code=0))
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
