# expect: value "blocked"
# proves: E9
# tries: every call that mounts: mount, remount, umount, pivot_root, the new mount interface, chroot
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
wrong = {}


def refused(what, expected, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    got = "ESCAPED" if result != -1 else errno.errorcode[ctypes.get_errno()]
    if got not in expected.split():
        wrong[what] = got


MS_REMOUNT, MS_BIND = 32, 4096
refused("tmpfs", "EPERM", 165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0)
refused("bind", "EPERM", 165, b"/", b"/tmp", 0, MS_BIND, 0)
refused("remount /", "EPERM", 165, 0, b"/", 0, MS_REMOUNT | MS_BIND, 0)
refused("remount /usr/bin", "EPERM", 165, 0, b"/usr/bin", 0, MS_REMOUNT | MS_BIND, 0)
refused("propagation", "EPERM", 165, 0, b"/", 0, 1 << 20 | 16384, 0)
refused("umount /proc/sys", "EPERM", 166, b"/proc/sys", 2)
refused("umount /tmp", "EPERM", 166, b"/tmp", 2)
refused("pivot_root", "EPERM", 155, b"/tmp", b"/tmp")
refused("chroot", "EPERM", 161, b"/tmp")
refused("open_tree", "EPERM", 428, -100, b"/", 1)
refused("move_mount", "EPERM", 429, -100, b"/tmp", -100, b"/dev/shm", 0)
refused("fsopen", "EPERM", 430, b"proc", 0)
refused("fsconfig", "EPERM", 431, 0, 0, 0, 0, 0)
refused("fsmount", "EPERM", 432, 0, 0, 0)
refused("fspick", "EPERM", 433, -100, b"/", 0)
refused("mount_setattr", "EPERM", 442, -100, b"/", 0, 0, 0)
refused("open_tree_attr", "EPERM", 467, -100, b"/", 1, 0, 0)
refused("statmount", "EPERM", 457, 0, 0, 0, 0)
refused("listmount", "EPERM", 458, 0, 0, 0, 0)
wrong or "blocked"
