# expect: value 7
# proves: E4, E9
# tries: fill the server's descriptor table by sending descriptors along with the report
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


import errno, time
descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
message = report(value=7)
for part in (message[:1], message[1:4], message[4:9], message[9:]):
    while True:
        try:
            socket.send_fds(channel, [part], descriptors)
            break
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:  # until the server has taken the earlier ones
                raise
            time.sleep(0.01)
os._exit(0)
