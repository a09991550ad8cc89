# takes: whatever setsockopt takes: every level and option, with short and long values, on sockets of each kind
def work(index):
    choose = random.Random(SEED + index)
    while True:
        for family, kind in ((2, 1), (2, 2), (10, 1), (10, 2)):
            with socket.socket(family, kind) as sock:
                for _ in range(50):
                    level = choose.choice((0, 1, 6, 17, 41, 136, 58, 132, 255, 263, 270, 282))
                    value = choose.choice((b"\1\0\0\0", b"\0\0\0\0", b"\xff" * 4, bytes(8), os.urandom(16), bytes(264), bytes(1 << 15)))
                    try:
                        sock.setsockopt(level, choose.randrange(80), value)
                    except OSError:
                        pass
        yield


swarm(work)
