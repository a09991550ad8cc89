# expect: value "blocked" or killed memory_bytes
# proves: E4
# limits: memory_bytes=64MiB
# tries: fill the kernel's memory by data in TCP sockets that nobody reads
import socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(100)
kept, total = [], 0
for _ in range(40):
    client = socket.socket()
    client.connect(server.getsockname())
    kept += [client, server.accept()[0]]
    client.setblocking(False)
    try:
        while total < 200 << 20:
            total += client.send(b"x" * 65536)
    except BlockingIOError:
        pass
"blocked" if 0 < total <= 100 << 20 else "ESCAPED: more than 100 MiB"
