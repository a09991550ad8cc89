# expect: value "blocked"
# proves: E9
# tries: weaken memory protections by personality, map page zero, take huge pages, lock memory
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import mmap, resource
for name, flag in (("READ_IMPLIES_EXEC", 0x400000), ("ADDR_NO_RANDOMIZE", 0x40000), ("MMAP_PAGE_ZERO", 0x100000), ("SVR4", 1), ("UNAME26", 0x20000)):
    for high in (0, 1 << 32):
        refused(f"{name} {high:x}", "EPERM", 135, ctypes.c_ulong(flag | high))
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
FAILED = ctypes.c_void_p(-1).value
for name, address, flags, expected in (("zero page", 0, 0x32, "EPERM EACCES"), ("huge pages", None, 0x40022, "EPERM"), ("locked", None, 0x2022, "EAGAIN EPERM")):
    if libc.mmap(address, 1 << 21, 3, flags, -1, 0) != FAILED:
        wrong[name] = "ESCAPED"
    elif errno.errorcode[ctypes.get_errno()] not in expected.split():
        wrong[name] = errno.errorcode[ctypes.get_errno()]
refused("mlockall", "ENOMEM EPERM", 151, 3)
refused("huge memfd", "EPERM", 319, b"x", 4)
refused("shmget", "EPERM", 29, 0, 4096, 0o1666)
refused("semget", "EPERM", 64, 0, 1, 0o1666)
refused("msgget", "EPERM", 68, 0, 0o1666)
refused("mq_open", "EPERM", 240, b"x", 0o102, 0o600, 0)
wrong or "blocked"
