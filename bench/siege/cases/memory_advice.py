# takes: what madvise sets going on every processor of the host: collapse, reclaim, merging, and locking of memory
def work(index):
    area = mmap.mmap(-1, 6 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    with open("/usr/lib/x86_64-linux-gnu/libc.so.6", "rb") as file:
        libc_area = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
    shared = ctypes.addressof(ctypes.c_char.from_buffer(libc_area))
    while True:
        for place in range(0, 6 << 20, 4096):
            area[place] = 1
        for advice in (14, 25, 12, 20, 21, 8, 22, 23, 15, 4):  # HUGEPAGE, COLLAPSE, MERGEABLE, COLD, PAGEOUT, FREE, …
            call("madvise", address, 6 << 20, advice)
            call("madvise", shared, len(libc_area) & ~4095, advice)
        call("mlock", address, 1 << 16)
        call("mlockall", 3)
        call("munlockall")
        yield


swarm(work)
