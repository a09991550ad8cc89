# takes: pages of pipes, which all processes of a user share (fs.pipe-user-pages-soft): then others get small ones
def work(index):
    kept = []
    while True:
        kept += os.pipe()
        os.set_blocking(kept[-1], False)
        try:
            os.write(kept[-1], bytes(1 << 16))
        except BlockingIOError:
            pass
        yield


swarm(work)
