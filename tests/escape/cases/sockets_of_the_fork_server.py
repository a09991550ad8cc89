# expect: value "blocked"
# proves: E9, E2
# tries: ask the fork server for another sandbox over every descriptor, and find a second socket of the host anywhere
import gc, json, os, socket, sys
wrong = {}
descriptors = {}
for name in os.listdir("/proc/self/fd"):
    if os.path.lexists(f"/proc/self/fd/{name}"):
        descriptors[int(name)] = os.readlink(f"/proc/self/fd/{name}")
sockets = [number for number, target in descriptors.items() if target.startswith("socket:")]
others = {number: target for number, target in descriptors.items() if number > 2 and number not in sockets}
if len(sockets) != 1 or others:
    wrong["descriptors"] = f"ESCAPED: {descriptors}"
objects = [one for one in gc.get_objects() if isinstance(one, socket.socket) and os.path.lexists(f"/proc/self/fd/{one.fileno()}")]
if any(one.fileno() not in (-1, *sockets) for one in objects):
    wrong["objects"] = f"ESCAPED: {objects}"
if open("/proc/net/unix").read().count("\n") > 1:
    wrong["names"] = "ESCAPED: other sockets of this network are listed"
channel = socket.socket(fileno=os.dup(sockets[0]))
channel.setblocking(False)
ours, theirs = socket.socketpair()
try:
    channel.recv(1)
    wrong["read"] = "ESCAPED: something was sent"
except BlockingIOError:
    pass
theirs.settimeout(0.3)
try:
    if theirs.recv(1):
        wrong["fork"] = "ESCAPED: it was answered"
except TimeoutError:
    pass
wrong or "blocked"
