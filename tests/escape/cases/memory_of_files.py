# expect: value "blocked"
# proves: E4
# limits: memory_bytes=256MiB scratch_bytes=8MiB file_bytes=64MiB
# tries: fill /tmp, /dev/shm and the guest's private directory beyond their sizes
import errno, os
wrong = {}
for place, size in (("/tmp", 8), ("/dev/shm", 8), ("/run/gloveport", 8)):
    written = 0
    try:
        with open(f"{place}/fill", "wb", buffering=0) as file:
            while written < 40 << 20:
                written += file.write(b"x" * 65536)
        wrong[place] = "ESCAPED: 40 MiB"
    except OSError as error:
        if error.errno != errno.ENOSPC or written > size << 20 or not written:
            wrong[place] = f"{error} after {written}"
    os.unlink(f"{place}/fill")
wrong or "blocked"
