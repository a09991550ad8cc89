# takes: settings below /proc/sys, read and written: those that are a namespace's own, and those that are not
def work(index):
    paths = [os.path.join(top, name) for top, _, names in os.walk("/proc/sys") for name in names]
    while True:
        for path in paths[index % 7::7]:
            for mode in (os.O_RDONLY, os.O_WRONLY):
                try:
                    file = os.open(path, mode | os.O_NONBLOCK)
                except OSError:
                    continue
                try:
                    os.read(file, 4096) if mode == os.O_RDONLY else os.write(file, b"1\n")
                except OSError:
                    pass
                os.close(file)
        yield


swarm(work)
