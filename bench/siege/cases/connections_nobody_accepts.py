# takes: memory of TCP: listeners with as many connections as wait, each with full buffers
# seconds: 20
# runs: 1
def work(index):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    for _ in range(scaled(4096)):
        client = socket.socket()
        client.setblocking(False)
        try:
            client.connect(listener.getsockname())
        except BlockingIOError:
            pass
        for _ in range(100):  # until it is connected, and then until it is full
            try:
                client.send(bytes(1 << 16))
            except BlockingIOError:
                break
        client.close()  # what it has sent waits to be accepted, without a descriptor
        yield


swarm(work, 40)
