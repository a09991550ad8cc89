# takes: pseudo-terminals, of which the host has so many (kernel.pty.max)
def work(index):
    kept = []
    for _ in range(scaled(120)):
        kept += os.openpty()
        yield


swarm(work)
