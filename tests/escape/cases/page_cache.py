# expect: value "blocked"
# proves: E9
# tries: learn what others read from the page cache, drop shared files from it, read past it
import ctypes, errno, fcntl, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(name, code, call, *arguments):
    try:
        result = call(*arguments)
    except OSError as error:
        result, ctypes_errno = -1, error.errno
    else:
        ctypes_errno = ctypes.get_errno()
    if result != -1 or ctypes_errno != code:
        wrong[name] = "ALLOWED" if result != -1 else errno.errorcode[ctypes_errno]


shared = os.open("/usr/bin/env", os.O_RDONLY)
page = mmap.mmap(shared, 4096, prot=mmap.PROT_READ)
buffer = bytearray(4096)
resident = ctypes.create_string_buffer(1)
refused("RWF_NOWAIT", errno.EOPNOTSUPP, os.preadv, shared, [buffer], 0, os.RWF_NOWAIT)
refused("RWF_DONTCACHE", errno.EOPNOTSUPP, os.preadv, shared, [buffer], 0, 0x80)
refused("mincore", errno.EPERM, libc.mincore, ctypes.c_void_p(0x10000), 4096, resident)
refused("MADV_PAGEOUT", errno.EINVAL, page.madvise, 21)
refused("O_DIRECT", errno.EINVAL, os.open, "/usr/bin/env", os.O_RDONLY | os.O_DIRECT)
refused("O_DIRECT later", errno.EINVAL, fcntl.fcntl, shared, fcntl.F_SETFL, os.O_DIRECT)
os.posix_fadvise(shared, 0, 0, os.POSIX_FADV_DONTNEED)  # is said to be done, and is not: the filter's own tests tell
str(wrong) if wrong else "blocked"
