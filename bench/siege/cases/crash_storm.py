# takes: the kernel's log and its handler of core dumps: processes that crash, or are killed by the filter, again and again
def work(index):
    number = 0
    while True:
        number += 1
        pid = os.fork()
        if pid == 0:
            if number % 3 == 0:
                libc.syscall(0x4000_0000 + 39)  # of the x32 architecture, which the filter kills for
            ctypes.string_at(number % 2)
            os._exit(0)
        os.waitpid(pid, 0)
        yield


swarm(work, 28)
