# expect: timeout or killed stored_output_bytes
# proves: E4
# limits: wall_seconds=1
# tries: keep the server busy with packets of one byte, each of which it must read by itself
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_WRONLY)
while True:
    os.write(1, b"x")
