# takes: the disk: reads of the system's large files past the page cache, by O_DIRECT and by dropping what was read
FILES = sorted((os.path.join(top, name) for top in ("/usr/lib/x86_64-linux-gnu", "/usr/bin") for name in os.listdir(top)),
               key=lambda path: -os.path.getsize(path) if os.path.isfile(path) else 0)[:40]


def work(index):
    buffer, refused = mmap.mmap(-1, 1 << 20), None
    while True:
        for path in FILES[index % 8::8]:
            try:
                file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            except OSError as error:
                file = os.open(path, os.O_RDONLY)
                if refused is None:
                    refused = error
            place = 0
            while os.preadv(file, [buffer], place) > 0:
                os.posix_fadvise(file, place, 1 << 20, os.POSIX_FADV_DONTNEED)
                place += 1 << 20
                yield
            os.close(file)


swarm(work, 16)
