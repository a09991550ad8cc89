# takes: open files, of which the host has so many (fs.file-max), with what hangs on each: event counters, sockets, files
def work(index):
    kept = []
    while True:
        kept.append(os.eventfd(0))
        kept.append(os.open("/usr/bin/env", os.O_RDONLY))
        kept.append(socket.socket())
        yield


swarm(work)
