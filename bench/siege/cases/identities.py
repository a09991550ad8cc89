# takes: counts per user, credentials, sessions and groups: made anew as fast as they can be
def work(index):
    header, sets = ctypes.create_string_buffer(struct.pack("Ii", 0x2008_0522, 0)), ctypes.create_string_buffer(24)
    while True:
        pid = os.fork()
        if pid == 0:
            try:
                for _ in range(100):
                    call("capset", header, sets)
                    call("setresuid", os.getuid(), os.getuid(), os.getuid())
                    call("setresgid", os.getgid(), os.getgid(), os.getgid())
                    call("prctl", 38, 1, 0, 0, 0)
                    call("prctl", 28, 1, 0, 0, 0)
                    call("setpgid", 0, 0)
                    call("personality", 0)
                    for policy in (0, 3, 5):
                        call("sched_setscheduler", 0, policy, ctypes.create_string_buffer(4))
                os.setsid()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        yield


swarm(work, 28)
