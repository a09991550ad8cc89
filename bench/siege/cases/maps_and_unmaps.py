# takes: mmap locks and TLB shootdowns: large areas mapped, touched and unmapped while threads run
# needs: cgroups
def work(index):
    for _ in range(3):
        threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(lambda: time.monotonic() < DEADLINE, False)],
                         daemon=True).start()
    while True:
        area = mmap.mmap(-1, 1 << 24)
        for place in range(0, 1 << 22, 4096):
            area[place] = 1
        area.close()
        yield


swarm(work, 12)
