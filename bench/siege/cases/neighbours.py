# takes: tables of the network that all namespaces share: neighbours, routes and their exceptions, limits of ICMP
def work(index):
    four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    number = refused = 0
    while number < scaled(40_000):
        number += 1
        group = f"ff02::{index:x}:{number:x}"
        for sock, target in ((six, (group, 9, 0, 1)), (six, (f"fe80::{index:x}:{number:x}", 9, 0, 1)), (six, ("::1", 9)),
                             (four, (f"127.{index}.{number >> 8 & 255}.{number & 255}", 9)), (four, (f"224.0.{index}.9", 9))):
            try:
                sock.sendto(b"x", target)
            except OSError:
                refused += 1
        yield


swarm(work)
