# takes: the page cache: what others have in it is dropped, and what is large pushes it out
def work(index):
    places = ("/usr/lib/x86_64-linux-gnu", "/usr/bin", "/usr/lib/python3.11")
    while True:
        for place in places:
            for name in os.listdir(place):
                try:
                    file = os.open(f"{place}/{name}", os.O_RDONLY)
                except OSError:
                    continue
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)
                yield


swarm(work, 16)
