# takes: programs of the kernel attached to sockets: their memory, and the lock of the just-in-time compiler
def work(index):
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x28, 0, 0, 12) * 1000 + struct.pack("HBBI", 6, 0, 0, 0xFFFF))
    program = struct.pack("H6xQ", 1001, ctypes.addressof(code))
    kept = []
    while True:
        if len(kept) >= 220:
            kept.clear()
        kept.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        kept[-1].setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
        yield


swarm(work)
