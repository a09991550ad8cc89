# takes: seccomp filters of the program's own, as many as fit, which log what they see to the host's audit log
LOG, ALLOW = 0x7FFC_0000, 0x7FFF_0000


def work(index):
    signal.signal(signal.SIGSYS, signal.SIG_IGN)
    body = struct.pack("HBBI", 0x20, 0, 0, 0) * 1000
    while True:
        pid = os.fork()
        if pid == 0:
            try:
                for action in [ALLOW] * 7 + [LOG]:
                    code = ctypes.create_string_buffer(body + struct.pack("HBBI", 6, 0, 0, action))
                    program = ctypes.create_string_buffer(struct.pack("H6xQ", 1001, ctypes.addressof(code)))
                    if libc.syscall(NUMBERS["seccomp"], 1, 2 if action == LOG else 0, program):  # SET_MODE_FILTER
                        break
                for _ in range(200):
                    os.getppid()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        yield


swarm(work, 28)
