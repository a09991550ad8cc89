# expect: value "blocked"
# proves: E9
# tries: make or open a device: memory, disks, kvm, fuse, kmsg, loop, uinput
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import stat
for name in (
    "mem kmem port kmsg fuse loop-control loop0 kvm vda sda nvme0n1 dm-0 uinput input/event0 net/tun mapper/control vhost-net vsock"
    " vhost-vsock cuse hpet rtc0 snapshot userfaultfd udmabuf dri/card0 nvidia0 ppp watchdog autofs btrfs-control ublk-control"
).split():
    refused(name, "ENOENT EACCES", os.open, f"/dev/{name}", os.O_RDWR)
for kind, major, minor in ((stat.S_IFCHR, 1, 1), (stat.S_IFBLK, 254, 0), (stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 10, 229), (stat.S_IFCHR, 1, 3)):
    refused(f"mknod {major}:{minor}", "EPERM", os.mknod, "/tmp/device", kind | 0o666, os.makedev(major, minor))
refused("whiteout", "EPERM", os.mknod, "/tmp/device", stat.S_IFCHR | 0o666, 0)
refused("socket file", "EPERM", os.mknod, "/tmp/device", stat.S_IFSOCK | 0o666, 0)
if sorted(os.listdir("/dev")) != ["core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"]:
    wrong["/dev"] = sorted(os.listdir("/dev"))
refused("/dev/core", "EACCES EPERM ENOENT", os.open, "/dev/core", os.O_RDONLY)
wrong or "blocked"
