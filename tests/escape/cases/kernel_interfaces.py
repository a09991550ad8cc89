# expect: value "blocked"
# proves: E9
# tries: the interfaces exploits start from: io_uring, bpf, perf, userfaultfd, keys, modules, kexec, handles, fanotify
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


buffer = ctypes.create_string_buffer(256)
refused("io_uring_setup", "EPERM", 425, 8, buffer)
refused("io_uring_enter", "EPERM", 426, 0, 0, 0, 0, 0, 0)
refused("io_uring_register", "EPERM", 427, 0, 0, 0, 0)
refused("bpf", "EPERM", 321, 0, buffer, 72)
refused("perf_event_open", "EPERM", 298, buffer, 0, -1, -1, 0)
refused("userfaultfd", "EPERM", 323, 1)
refused("memfd_secret", "EPERM", 447, 0)
refused("add_key", "EPERM", 248, b"user", b"gloveport", b"x", 1, -4)
refused("request_key", "EPERM", 249, b"user", b"gloveport", 0, -4)
refused("keyctl", "EPERM", 250, 0, -4, 1)
refused("init_module", "EPERM", 175, buffer, 8, b"")
refused("finit_module", "EPERM", 313, 0, b"", 0)
refused("delete_module", "EPERM", 176, b"x", 0)
refused("kexec_load", "EPERM", 246, 0, 0, 0, 0)
refused("kexec_file_load", "EPERM", 320, 0, 0, 0, b"", 0)
refused("name_to_handle_at", "EPERM", 303, -100, b"/tmp", buffer, buffer, 0)
refused("open_by_handle_at", "EPERM", 304, -100, buffer, 0)
refused("fanotify_init", "EPERM", 300, 0, 0)
refused("vmsplice", "EPERM", 278, 1, buffer, 1, 0)
refused("modify_ldt", "EPERM", 154, 0, buffer, 8)
refused("iopl", "EPERM", 172, 3)
refused("ioperm", "EPERM", 173, 0, 1, 1)
refused("lookup_dcookie", "EPERM", 212, 0, buffer, 8)
refused("move_pages", "EPERM", 279, 0, 0, 0, 0, 0, 0)
refused("set_mempolicy", "EPERM", 238, 0, 0, 0)
refused("io_setup", "ENOSYS", 206, 1, buffer)
refused("a call of the future", "ENOSYS", 600)
refused("a negative call", "ENOSYS", 0x3FFFFFFF)
wrong or "blocked"
