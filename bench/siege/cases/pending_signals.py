# takes: queued signals, which all processes of a user share (RLIMIT_SIGPENDING)
def work(index):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(32, 65))
    info = ctypes.create_string_buffer(128)
    struct.pack_into("iiii", info, 0, 40, 0, -1, 0)
    while True:
        require(call("rt_sigqueueinfo", os.getpid(), 40, info))
        yield


swarm(work)
