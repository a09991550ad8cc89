# takes: buckets of the futex hash that all processes share: waiters on one word, woken and requeued
# needs: cgroups
def work(index):
    shared = WORD if index % 2 else mmap.mmap(-1, 4096)
    word = ctypes.c_int.from_buffer(shared)
    other = ctypes.c_int.from_buffer(shared, 8)
    short = ctypes.create_string_buffer(struct.pack("2q", 0, 50_000))
    while True:
        for _ in range(100):
            call("futex", ctypes.byref(word), 0, 0, short, 0, 0)  # FUTEX_WAIT
            call("futex", ctypes.byref(word), 3, 1, 1000, ctypes.byref(other), 0)  # FUTEX_REQUEUE
            call("futex", ctypes.byref(other), 1, 1000, 0, 0, 0)  # FUTEX_WAKE
        yield


WORD = mmap.mmap(-1, 4096)
swarm(work)
