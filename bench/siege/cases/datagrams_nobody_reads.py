# takes: memory of UDP (udp_mem, one for the host) and of AF_UNIX: sockets whose buffers are full
# runs: 1
def work(index):
    kept = []
    for number in range(scaled(240)):
        if number % 2:
            sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        else:
            sender, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
            receiver.bind(("127.0.0.1", 0))
            sender.connect(receiver.getsockname())
        sender.setblocking(False)
        kept.append(receiver)
        for _ in range(300):
            try:
                sender.send(bytes(16_000))
            except BlockingIOError:
                break
        yield


swarm(work)
