# takes: the lock of the process table, pids and cgroups: processes that begin and end as fast as they can
def work(index):
    while True:
        pids = [os.fork() for _ in range(1)]
        if 0 in pids:
            os._exit(0)
        os.waitpid(pids[0], 0)
        yield


swarm(work, 28)
