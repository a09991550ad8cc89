# expect: value "blocked"
# proves: E9
# tries: watch a directory that the host shows to all (fcntl F_NOTIFY): slows each access to it, and tells of them
import fcntl, os
F_NOTIFY, DN_ACCESS, DN_MULTISHOT = 1026, 1, 0x80000000
wrong = {}
for path in ("/usr/lib", "/usr/bin", "/tmp", "/proc", "/dev"):
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(directory, F_NOTIFY, DN_ACCESS | DN_MULTISHOT)
        wrong[path] = "WATCHED"
    except PermissionError:
        pass
str(wrong) if wrong else "blocked"
