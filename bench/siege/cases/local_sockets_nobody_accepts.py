# takes: memory and numbers of local sockets: listeners with as many connections as wait, each with all that fits in it
# tool: exec_command
# runs: 1
def work(index):
    for number in range(200):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0{index}-{number}")
        listener.listen(4096)
        kept.append(listener)
        for _ in range(scaled(128)):
            with socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                try:
                    client.connect(f"\0{index}-{number}")
                    client.send(bytes(1 << 18))
                except OSError:
                    break
            yield


kept = []
swarm(work)
