# expect: value "blocked"
# proves: E9
# tries: lift the system call filter by adding one that allows everything, and one whose supervisor says "continue"
import ctypes, errno, fcntl, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def install(code, flags):
    program = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(program)
    descriptor = struct.pack("<H6xQ", len(code), ctypes.addressof(buffer))
    return libc.syscall(317, 1, flags, descriptor), buffer


def mount():
    result = libc.syscall(165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0)
    return "ESCAPED" if result == 0 else errno.errorcode[ctypes.get_errno()]


result, _ = install([(6, 0, 0, 0x7FFF0000)], 0)
if result != 0 or mount() != "EPERM":
    wrong["allow"] = (result, mount())
# mount → ask the supervisor, everything else → allow
listener, keep = install([(0x20, 0, 0, 0), (0x15, 0, 1, 165), (6, 0, 0, 0x7FC00000), (6, 0, 0, 0x7FFF0000)], 1 << 3)
if listener < 0:
    wrong["listener"] = errno.errorcode[ctypes.get_errno()]


def supervise():
    notification = bytearray(80)
    fcntl.ioctl(listener, 0xC0502100, notification)
    answer = bytearray(struct.pack("<QqiI", struct.unpack_from("<Q", notification)[0], 0, 0, 1))
    fcntl.ioctl(listener, 0xC0182101, answer)


threading.Thread(target=supervise, daemon=True).start()
if mount() != "EPERM":
    wrong["continue"] = mount()
wrong or "blocked"
