# takes: orphaned TCP sockets, of which the host has so many (tcp_max_orphans): closed with bytes that nobody takes
def work(index):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    kept = []
    while len(kept) < scaled(120):
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.setblocking(False)
        try:
            while True:
                client.send(bytes(1 << 16))
        except BlockingIOError:
            pass
        client.close()
        kept.append(server)
        yield


swarm(work)
