# expect: value "blocked"
# proves: E9
# tries: ptrace, process_vm_readv and writev, pidfd_getfd, kcmp, process_madvise on its own child and on pid 1
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os, time
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
for pid in (child, 1, os.getpid()):
    for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
        refused(f"ptrace {request:x}", "EPERM", 101, request, pid, 0, 0)
    refused("process_vm_readv", "EPERM", 310, pid, vector, 1, vector, 1, 0)
    refused("process_vm_writev", "EPERM", 311, pid, vector, 1, vector, 1, 0)
    refused("kcmp", "EPERM", 312, pid, os.getpid(), 0, 0, 0)
    descriptor = os.pidfd_open(pid)
    refused("pidfd_getfd", "EPERM", 438, descriptor, 0, 0)
    refused("process_madvise", "EPERM", 440, descriptor, vector, 1, 4, 0)
    refused("process_mrelease", "EPERM", 448, descriptor, 0)
refused("traceme", "EPERM", 101, 0, 0, 0, 0)
os.kill(child, 9)
os.waitpid(child, 0)
wrong or "blocked"
