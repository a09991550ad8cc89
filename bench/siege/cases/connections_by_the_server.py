# takes: connections that the server makes for commands, by paths, names and addresses, asked for as fast as they can be
# tool: exec_command
def work(index):
    local = socket.socket(socket.AF_UNIX)
    local.bind(f"/tmp/listener-{index}")
    local.listen(4)
    listener = socket.create_server(("127.0.0.1", 0))
    targets = [
        (socket.AF_UNIX, f"/tmp/listener-{index}"),
        (socket.AF_UNIX, f"\0nobody-{index}"),
        (socket.AF_UNIX, "/usr/lib/none"),
        (socket.AF_INET, listener.getsockname()),
    ]
    while True:
        for family, target in targets:
            with socket.socket(family) as client:
                client.setblocking(index % 2 == 0)
                client.settimeout(0.05 if index % 2 == 0 else 0)
                try:
                    client.connect(target)
                except OSError:
                    pass
        yield


swarm(work)
