# takes: membarrier(GLOBAL), which waits for every processor of the host, and the expedited kinds, which interrupt them
def work(index):
    for command in (16, 4, 64):  # REGISTER_PRIVATE_EXPEDITED, REGISTER_GLOBAL_EXPEDITED, its SYNC_CORE
        call("membarrier", command, 0, 0)
    while True:
        for command in (1, 2, 8, 32):
            call("membarrier", command, 0, 0)
        yield


swarm(work)
