# expect: value "blocked"
# proves: E9
# tries: take away, remount or look beneath the mounts of its own that cover those of a fork server
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


import os
PLACES = (b"/tmp", b"/proc", b"/proc/sys", b"/proc/keys", b"/proc/kcore", b"/dev", b"/dev/pts", b"/dev/shm", b"/run/gloveport", b"/", b"/etc", b"/usr")
for place in PLACES:
    for flags in (0, 1, 2, 4, 8, 10):
        refused(f"umount {place}", "EPERM", 166, place, flags)
    for flags in (32, 32 | 4096, 4096, 4096 | 16384, 8192, 1 << 18, 1 << 17, 1 << 19):
        refused(f"mount {place}", "EPERM", 165, place, place, 0, flags, 0)
    refused(f"new proc on {place}", "EPERM", 165, b"proc", place, b"proc", 0, 0)
    refused(f"open_tree {place}", "EPERM", 428, -100, place, 1 | 0x8000)
count = {}
for line in open("/proc/self/mountinfo"):
    words = line.split()
    if " shared:" in line or " master:" in line or " propagate_from:" in line:
        wrong["propagation"] = line
    count[words[4]] = count.get(words[4], 0) + 1
for place in ("/tmp", "/dev/shm", "/dev/pts", "/run/gloveport"):  # stat by device: what is seen is the uppermost
    top = [line.split() for line in open("/proc/self/mountinfo") if line.split()[4] == place][-1]
    if os.stat(place).st_dev != os.makedev(*map(int, top[2].split(":"))):
        wrong[place] = "not the uppermost mount"
for place in ("/tmp", "/dev/shm"):
    if {*os.listdir(place)} - {"program.py"}:
        wrong[place] = os.listdir(place)
here = os.open("/tmp", os.O_RDONLY)
for up in ("../tmp", "../dev/shm", "../proc/1/root/tmp"):
    try:
        if {*os.listdir(f"/proc/self/fd/{here}/{up}")} - {"program.py"}:
            wrong[up] = "something is there"
    except OSError:
        pass
wrong or "blocked"
