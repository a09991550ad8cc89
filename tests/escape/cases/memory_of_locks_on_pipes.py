# expect: killed memory_bytes
# proves: E4
# limits: wall_seconds=80 memory_bytes=128MiB
# tries: hold more than half a million locks where nobody looks for them: on pipes, behind a path too long to be told
import fcntl, os, struct, time
os.chdir("/tmp")
for _ in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
hidden = os.open("hidden", os.O_RDWR | os.O_CREAT)
locks = [struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0) for place in range(200, 0, -1)]
for child in range(32):
    if not os.fork():
        for number in range(240):
            reading, writing = os.pipe()
            os.close(reading)
            for lock in locks:
                fcntl.fcntl(writing, fcntl.F_SETLK, lock)
        time.sleep(80)
time.sleep(70)
"ESCAPED: they were held for as long as it liked"
