# takes: terminals opened and closed under the lock of all terminals, and flooded: the kernel's own workers carry the bytes
def work(index):
    while True:
        master, slave = os.openpty()
        os.set_blocking(master, False)
        os.set_blocking(slave, False)
        for _ in range(20):
            for file in (master, slave):
                try:
                    os.write(file, b"x\n" * 1000)
                except BlockingIOError:
                    pass
            try:
                os.read(master, 65536)
            except BlockingIOError:
                pass
        os.close(slave)
        os.close(master)
        yield


swarm(work, 24)
