# expect: value "blocked"
# proves: E9
# tries: create, change, replace, link or remove files of the root, /usr, /etc, /dev and Gloveport's own guest files
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


for place in ("/", "/usr/bin", "/usr/lib", "/usr/share", "/etc", "/dev", "/opt", "/opt/gloveport", "/opt/data", "/opt/data/numpy", "/run", "/mnt", "/var"):
    if not os.path.isdir(place):
        continue
    refused(f"create in {place}", "EROFS EACCES", os.open, f"{place}/x", os.O_CREAT | os.O_WRONLY)
    refused(f"mkdir in {place}", "EROFS EACCES EPERM", os.mkdir, f"{place}/d")
    refused(f"symlink in {place}", "EROFS EACCES EPERM", os.symlink, "/tmp", f"{place}/s")
    refused(f"fifo in {place}", "EROFS EACCES EPERM", os.mkfifo, f"{place}/f")
    refused(f"chmod {place}", "EROFS EPERM EACCES", os.chmod, place, 0o777)
    refused(f"utime {place}", "EROFS EPERM EACCES", os.utime, place, (1, 1))
    refused(f"xattr {place}", "EROFS EPERM EACCES ENOTSUP", os.setxattr, place, "user.x", b"x")
for path in ("/opt/gloveport/init.py", "/opt/gloveport/landlock.py", "/usr/bin/python3", "/usr/bin/bash", "/etc/passwd", "/etc/hosts", "/etc/ld.so.cache"):
    for name, flags in (("write", os.O_WRONLY), ("append", os.O_WRONLY | os.O_APPEND), ("truncate", os.O_RDWR | os.O_TRUNC)):
        refused(f"{name} {path}", "EROFS EACCES ETXTBSY", os.open, path, flags)
    refused(f"unlink {path}", "EROFS EACCES EPERM", os.unlink, path)
    refused(f"rename {path}", "EROFS EACCES EXDEV EPERM", os.rename, path, path + ".old")
    refused(f"move {path}", "EROFS EACCES EXDEV EPERM", os.rename, path, "/tmp/stolen")
    refused(f"link {path}", "EROFS EACCES EXDEV EPERM", os.link, path, "/tmp/linked")
    refused(f"chown {path}", "EROFS EPERM EACCES", os.chown, path, os.getuid(), os.getgid())
    with open(path, "rb") as file:
        refused(f"fchmod {path}", "EROFS EPERM", os.fchmod, file.fileno(), 0o777)
        refused(f"reopen {path}", "EROFS EACCES ETXTBSY", os.open, f"/proc/self/fd/{file.fileno()}", os.O_RDWR)
open("/tmp/evidence", "w").close()
wrong or "blocked"
