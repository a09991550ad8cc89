# expect: value "blocked"
# proves: E9, T4
# tries: write the init's memory, open its descriptors and mappings, rename it, put it in another group
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


PLACES = ("mem", "clear_refs", "coredump_filter", "oom_score_adj", "comm", "timens_offsets", "setgroups", "uid_map", "gid_map", "timerslack_ns", "autogroup", "sched", "make-it-fail", "fail-nth", "attr/current")
for name in PLACES:
    for path in (f"/proc/1/{name}", f"/proc/1/task/1/{name}"):
        refused(path, "EACCES EPERM ENOENT EROFS EINVAL", lambda: os.write(os.open(path, os.O_WRONLY), b"1"))
for name in ("map_files", "cwd/", "root/", "task/1/cwd/"):
    refused(f"list {name}", "EACCES EPERM ENOENT", os.listdir, f"/proc/1/{name}")
for number in range(64):
    for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
        refused(f"fd {number}", "EACCES EPERM ENOENT ENXIO", os.open, f"/proc/1/fd/{number}", mode)
    refused(f"fdinfo {number}", "EACCES EPERM ENOENT", lambda: open(f"/proc/1/fdinfo/{number}").read())
for name in ("environ", "auxv", "maps", "smaps", "smaps_rollup", "pagemap", "numa_maps", "stack", "syscall", "io", "mem", "exe"):
    refused(f"read {name}", "EACCES EPERM ENOENT EINVAL ENODATA", lambda: open(f"/proc/1/{name}", "rb", buffering=0).read(4096))
refused("pidfd", "EPERM EACCES EINVAL", lambda: os.read(os.pidfd_open(1), 1))
refused("group", "EPERM EACCES ESRCH", os.setpgid, 1, os.getpgid(0))
wrong or "blocked"
