# takes: reclaim: the whole of the sandbox's memory in use, by anonymous pages and by files of the host that are read
# needs: cgroups
def work(index):
    kept = []
    while True:
        if len(kept) < 7:
            kept.append(bytearray(os.urandom(1 << 20)))
        for top, _, names in os.walk("/usr/lib/x86_64-linux-gnu"):
            for name in names[index::8]:
                try:
                    with open(os.path.join(top, name), "rb") as file:
                        while file.read(1 << 18):
                            yield
                except OSError:
                    pass


swarm(work, 48)
