# takes: descriptors in flight, in sockets that hold one another: a user's count of them, and the garbage collector
import array

def send(sender, *descriptors):
    sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def work(index):
    while True:
        pairs = [socket.socketpair() for _ in range(100)]
        for one, other in zip(pairs, pairs[1:] + pairs[:1]):
            one[0].setblocking(False)
            try:
                send(one[0], other[0].fileno(), other[1].fileno(), one[1].fileno())
            except OSError:
                pass
        for pair in pairs:
            pair[0].close()
            pair[1].close()
        yield


swarm(work)
