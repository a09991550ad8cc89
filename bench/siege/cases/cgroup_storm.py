# takes: accounts of control groups, flushed for every reader, where they can be seen; else the lock of cgroup attachments
def work(index):
    found = [os.path.join(top, name) for top, _, names in os.walk("/sys/fs/cgroup") for name in names][:500]
    while True:
        for path in [*found, "/proc/self/cgroup", "/proc/self/task/self/cgroup", "/proc/cgroups"]:
            try:
                with open(path, "rb") as file:
                    file.read()
            except OSError:
                pass
        yield


swarm(work)
