# takes: flock, again and again on many files, and waiting for it
def work(index):
    files = [os.open(f"/tmp/lock-{number}", os.O_RDWR | os.O_CREAT) for number in range(50)]
    while True:
        for file in files:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_UN)
        yield


swarm(work)
