# takes: memory of files without a name, up to the limit and truncated again
def work(index):
    while True:
        file = os.memfd_create("x")
        try:
            for _ in range(6):
                os.write(file, bytes(1 << 20))
            os.ftruncate(file, 1 << 40)
        except OSError:
            pass
        os.close(file)
        yield


swarm(work)
