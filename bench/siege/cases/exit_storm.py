# takes: the teardown of memory and process groups: many processes with mapped memory end in one moment
def work(index):
    while True:
        pid = os.fork()
        if pid == 0:
            area = mmap.mmap(-1, 8 << 20)
            for place in range(0, 8 << 20, 4096):
                area[place] = 1
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        yield


swarm(work, 24)
