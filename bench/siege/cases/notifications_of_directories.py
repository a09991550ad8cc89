# takes: watches on directories that everybody uses (fcntl F_NOTIFY), which every open and read of the host goes through
def work(index):
    kept = []
    for _ in range(scaled(230)):
        kept.append(os.open("/usr/lib/x86_64-linux-gnu", os.O_RDONLY))
        fcntl.fcntl(kept[-1], 1026, 0x8000_0001 - (1 << 32))  # DN_ACCESS | DN_MULTISHOT
        yield


signal.signal(signal.SIGIO, signal.SIG_IGN)
swarm(work)
