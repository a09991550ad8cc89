# takes: as descriptors_in_flight, without letting go: deep chains of sockets that are in one another
import array

def work(index):
    kept = socket.socketpair()
    while True:
        fresh = socket.socketpair()
        fresh[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [end.fileno() for end in kept]))])
        for end in kept:
            end.close()
        kept = fresh
        yield


swarm(work)
