# takes: the disk: a workspace written and synced, small and large
# tool: exec_command
def work(index):
    name = f"written-{os.getpid()}"
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.unlink(name)
    place = 0
    while True:
        os.pwrite(file, os.urandom(1 << 16), place % (16 << 20))
        place += 1 << 16
        os.fsync(file)
        yield


swarm(work, 16)
