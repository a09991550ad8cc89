# expect: killed memory_bytes
# proves: E4
# limits: memory_bytes=64MiB
# tries: fill the kernel's memory by data in connections that nobody accepts, which belong to no cgroup
import os, socket, time
for _ in range(4):
    if os.fork() == 0:
        break
kept = []
while len(kept) < 4:
    kept.append(socket.create_server(("127.0.0.1", 0), backlog=4096))
ends = time.monotonic() + 10
while time.monotonic() < ends:
    for server in kept:
        client = socket.socket()
        client.setblocking(False)
        try:
            client.connect(server.getsockname())
        except BlockingIOError:
            pass
        try:
            client.send(b"x" * 65536)
        except OSError:
            pass
        client.close()
"ESCAPED: " + open("/proc/net/sockstat").read()
