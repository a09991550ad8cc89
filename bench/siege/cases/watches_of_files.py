# takes: inotify instances and watches, which all processes of a user share, where they are allowed
def work(index):
    kept = []
    for _ in range(100):
        kept.append(libc.inotify_init1(0))
        if kept[-1] < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        for top, names, _ in os.walk("/usr/lib"):
            for name in names:
                libc.inotify_add_watch(kept[-1], os.path.join(top, name).encode(), 0xFFF)
                yield


swarm(work)
