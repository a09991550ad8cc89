# expect: killed memory_bytes
# proves: E4
# limits: memory_bytes=64MiB wall_seconds=40
# tries: end the first thread, by which its network is counted, and fill the kernel by connections that nobody accepts
import ctypes, os, socket, threading, time
for _ in range(4):
    if os.fork() == 0:
        break
else:
    threading.Thread(target=time.sleep, args=(30,)).start()
    ctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone
kept = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(4)]
ends = time.monotonic() + 20
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
