# takes: the lock of all mounts of the host (namespace_sem): every process reads its table of mounts, again and again
# needs: cgroups
def work(index):
    while True:
        for name in ("mountinfo", "mounts", "mountstats"):
            with open(f"/proc/self/{name}", "rb") as file:
                file.read()
        yield


swarm(work)
