# takes: connections to the doors and to ports of the sandbox's own, opened and reset as fast as they can be
def work(index):
    listener = socket.create_server(("127.0.0.1", 0))
    targets = [("127.0.0.2", 3128), ("127.0.0.3", 3128), listener.getsockname()]
    linger = struct.pack("ii", 1, 0)
    while True:
        for target in targets:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.settimeout(1)
            try:
                client.connect(target)
                client.send(b"GET / HTTP/1.1\r\n")
            except OSError:
                pass
            client.close()
        yield


swarm(work)
