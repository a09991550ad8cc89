# expect: killed memory_bytes
# proves: E4
# limits: wall_seconds=80 memory_bytes=128MiB
# tries: have the kernel hold more than half a million locks on files, of which no cgroup and no limit knows
import fcntl, os, struct, time
# From the end: the kernel looks for the place of a lock from the start. Not too many in a file: it looks at them all.
locks = [struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0) for place in range(200, 0, -1)]
for child in range(32):
    if not os.fork():
        for number in range(240):
            file = os.open(f"/tmp/{child}-{number}", os.O_RDWR | os.O_CREAT)
            for lock in locks:
                fcntl.fcntl(file, fcntl.F_SETLK, lock)
        time.sleep(80)
time.sleep(70)
"ESCAPED: they were held for as long as it liked"
