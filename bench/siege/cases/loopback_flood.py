# takes: the network's soft interrupts: small packets of UDP on the sandbox's own loopback
def work(index):
    receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    receiver.bind(("127.0.0.1", 0))
    receiver.setblocking(False)
    target = receiver.getsockname()
    while True:
        for _ in range(1000):
            sender.sendto(b"x", target)
        yield


swarm(work)
