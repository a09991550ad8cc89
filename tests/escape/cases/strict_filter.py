# expect: value "blocked"
# proves: E9
# tries: lift the system call filter by one that allows everything, and write to the host's log by one that logs
import ctypes, errno, struct
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}
for what, verdict in (("allow", 0x7FFF0000), ("log", 0x7FFC0000), ("notify", 0x7FC00000)):
    code = struct.pack("<HBBI", 6, 0, 0, verdict)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("<H6xQ", 1, ctypes.addressof(buffer))
    for way, call in (("seccomp", (317, 1, 0, program)), ("listener", (317, 1, 1 << 3, program)), ("prctl", (157, 22, 2, program, 0, 0))):
        ctypes.set_errno(0)
        if libc.syscall(*call) >= 0 or ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL):
            wrong[what, way] = errno.errorcode.get(ctypes.get_errno(), "TAKEN")
if libc.syscall(165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0) == 0:
    wrong["mount"] = "ESCAPED"
str(wrong) if wrong else "blocked"
