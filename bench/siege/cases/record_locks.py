# takes: locks, in lists that one lock of the host guards and that /proc/locks shows to everybody
def work(index):
    file = os.open(f"/tmp/locks-{index % 4}", os.O_RDWR | os.O_CREAT)
    place = 0
    while place < scaled(40_000):
        request = struct.pack("hhqqi4x", fcntl.F_RDLCK if index % 2 else fcntl.F_WRLCK, os.SEEK_SET,
                              (index << 32) + 2 * place, 1, 0)
        fcntl.fcntl(file, fcntl.F_SETLK, request)
        place += 1
        yield


swarm(work)
