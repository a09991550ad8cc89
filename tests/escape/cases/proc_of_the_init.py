# expect: value "blocked"
# proves: E9, T4
# tries: read root, directory, memory, environment and descriptors of pid 1, which was started by the host
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


for name in ("root", "cwd", "exe"):
    refused(name, "EACCES EPERM", os.readlink, f"/proc/1/{name}")
for name in ("root/etc/passwd", "cwd/etc/passwd", "environ", "mem", "maps", "auxv", "stack", "syscall", "personality"):
    refused(name, "EACCES EPERM", lambda: open(f"/proc/1/{name}", "rb", buffering=0).read(64))
for name in ("fd", "map_files", "fdinfo", "ns", "root", "cwd"):
    if name in ("fd", "fdinfo") and os.access(f"/proc/1/{name}", os.R_OK) and not os.listdir(f"/proc/1/{name}"):
        continue  # none is open
    refused(name, "EACCES EPERM", lambda: [os.readlink(f"/proc/1/{name}/{entry}") for entry in os.listdir(f"/proc/1/{name}")])
refused("memory", "EACCES EPERM", os.open, "/proc/1/mem", os.O_RDWR)
wrong or "blocked"
