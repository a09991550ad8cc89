# takes: interrupts of other processors: rights of mapped pages changed as fast as they can be
# needs: cgroups
def work(index):
    threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(lambda: time.monotonic() < DEADLINE, False)],
                     daemon=True).start()
    area = mmap.mmap(-1, 1 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    while True:
        for place in range(0, 1 << 20, 8192):
            area[place] = 1
            require(call("mprotect", address + place, 4096, 1))
        for place in range(0, 1 << 20, 8192):
            require(call("mprotect", address + place, 4096, 3))
        yield


swarm(work, 24)
