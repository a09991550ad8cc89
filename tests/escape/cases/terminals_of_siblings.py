# expect: value "blocked"
# proves: E9
# runs: 2
# tries: find a terminal or a shared memory file of another sandbox, make a device, open the devpts of the fork server
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import pty, stat
if left := [name for name in os.listdir("/dev/pts") if name != "ptmx"]:
    wrong["pts"] = f"ESCAPED: {left}"
master, slave = pty.openpty()
if os.ttyname(slave) != "/dev/pts/0":
    wrong["number"] = os.ttyname(slave)
os.write(slave, b"mine")
for place in ("/tmp", "/dev", "/dev/shm", "/dev/pts", "/run/gloveport"):
    for kind, name in ((stat.S_IFCHR, "char"), (stat.S_IFBLK, "block")):
        refused(f"{place} {name}", "EPERM EACCES EROFS", os.mknod, f"{place}/{name}", 0o666 | kind, os.makedev(1, 1))
names = {"core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero", "console"}
if extra := set(os.listdir("/dev")) - names:
    wrong["devices"] = sorted(extra)
open("/dev/shm/mine", "w").close()
wrong or "blocked"
