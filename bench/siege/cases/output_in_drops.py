# takes: the server: output of one byte at a time, from many processes
def work(index):
    while True:
        for _ in range(1000):
            os.write(1 + index % 2, b"x")
        yield


swarm(work)
