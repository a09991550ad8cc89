# expect: value "blocked"
# proves: E4
# limits: file_bytes=8MiB
# tries: make huge files: sparse, allocated, copied, and by truncate
import errno, os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
wrong = {}
file = os.open("/tmp/x", os.O_CREAT | os.O_RDWR)
for name, attempt in {
    "seek": lambda: os.pwrite(file, b"x", 1 << 40),
    "truncate": lambda: os.ftruncate(file, 1 << 40),
    "allocate": lambda: os.posix_fallocate(file, 0, 1 << 40),
    "memory": lambda: os.ftruncate(os.memfd_create("x"), 1 << 40),
}.items():
    try:
        wrong[name] = f"ESCAPED: {attempt()}"
    except OSError as error:
        if error.errno != errno.EFBIG:
            wrong[name] = str(error)
wrong or "blocked"
