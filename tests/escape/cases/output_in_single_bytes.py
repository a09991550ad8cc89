# expect: timeout or killed stored_output_bytes
# proves: E4
# limits: wall_seconds=1
# tries: keep the server busy with single bytes, in packets that it must read one by one if the pipe can be made to
import fcntl, os
try:
    fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_WRONLY)
    raise SystemExit("ESCAPED: the pipe holds packets")
except OSError:
    pass
while True:
    os.write(1, b"x")
