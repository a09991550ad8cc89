# expect: value "blocked"
# proves: E9, T4
# tries: read the host's files by name, by .. and by links; one readable file of the host is known by its path
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


for path in (
    "@secret@", "/oldroot@secret@", "/newroot@secret@", "/../../..@secret@", "/proc/self/root@secret@", "/proc/self/cwd/..@secret@",
    "/proc/thread-self/root@secret@", "/usr/../..@secret@", "/etc/shadow", "/etc/hostname", "/etc/ssh", "/etc/machine-id", "/etc/resolv.conf",
    "/root/.ssh", "/home", "/root", "/var", "/sys", "/boot", "/srv", "/mnt/host", "/usr/local", "/oldroot", "/newroot", "/run/docker.sock",
    "/run/gloveport.uids", "/run/systemd", "/var/run/docker.sock", "/usr/sbin",
):
    refused(path, "ENOENT EACCES", os.stat, path)
os.symlink("/../../../..@secret@", "/tmp/link")
os.symlink("/", "/tmp/root")
refused("link", "ENOENT", open, "/tmp/link")
refused("link to the root", "ENOENT", open, "/tmp/root@secret@")
directory = os.open("/", os.O_PATH)
refused("from a descriptor", "ENOENT", os.open, "../.." + "@secret@", os.O_RDONLY, dir_fd=directory)
refused("what is beside the links to /out", "EACCES", os.listdir, "/mnt")
refused("the root", "EACCES", os.listdir, "/")
wrong or "blocked"
