# takes: the kernel's random numbers, large and small at once
def work(index):
    while True:
        for size in (1, 256, 1 << 20):
            os.getrandom(size)
        yield


swarm(work)
