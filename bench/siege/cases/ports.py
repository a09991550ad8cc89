# takes: chains of the tables of ports, which all namespaces share: many sockets at few ports
def work(index):
    kept = []
    for number in range(scaled(240)):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            if len(kept) > 240:
                break
            kept.append(socket.socket(socket.AF_INET, kind))
            kept[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            kept[-1].bind(("127.0.0.1", 5000))
            yield
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            sock.sendto(b"x", ("127.0.0.1", 5000))
        yield


swarm(work)
