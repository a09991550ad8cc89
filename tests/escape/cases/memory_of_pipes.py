# expect: killed memory_bytes or value "blocked"
# proves: E4
# limits: memory_bytes=48MiB open_files=256
# tries: fill the kernel's memory by pipes of a megabyte each
import fcntl, os
total, ends = 0, []
try:
    while True:
        ends += os.pipe()
        os.set_blocking(ends[-1], False)
        try:
            fcntl.fcntl(ends[-1], 1031, 1 << 20)
        except OSError:
            pass
        try:
            while True:
                total += os.write(ends[-1], b"x" * 65536)
        except BlockingIOError:
            pass
except OSError:
    pass
"blocked" if 0 < total <= 80 << 20 else f"ESCAPED: {total >> 20} MiB"
