# takes: kills for want of memory, one after the other, each of which the kernel logs
# needs: cgroups
def work(index):
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 22)))
        yield


swarm(work)
