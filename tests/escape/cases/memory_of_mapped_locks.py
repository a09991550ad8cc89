# expect: value "refused"
# proves: E4
# limits: wall_seconds=80 memory_bytes=128MiB
# tries: have the kernel hold more than half a million locks on files that are mapped and have no descriptor any more
import ctypes, errno, fcntl, os, struct, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_size_t]
F_OFD_SETLK = 37  # such a lock belongs to the open file, and a mapping keeps that
locks = [struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0) for place in range(200, 0, -1)]
def hold():
    for number in range(5000):
        file = os.open(f"/tmp/{number}", os.O_RDWR | os.O_CREAT)
        for lock in locks:
            fcntl.fcntl(file, F_OFD_SETLK, lock)
        libc.mmap(None, 4096, 1, 1, file, 0)
        os.close(file)
    time.sleep(40)
    return "ESCAPED: they were held for as long as it liked"
try:
    told = hold()
except OSError as error:
    told = "refused" if error.errno == errno.EINVAL else repr(error)
told
