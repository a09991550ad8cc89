# takes: dentries of names that don't exist, in directories of the host, which stay when the run has ended
# needs: cgroups
def work(index):
    number = 0
    while number < scaled(60_000):
        try:
            os.stat(f"/usr/lib/{index}-{number:0>200}")
        except FileNotFoundError:
            pass
        number += 1
        yield


swarm(work)
