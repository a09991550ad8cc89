# expect: value "blocked"
# proves: E9
# mounts: hostile
# tries: hold up the host's programs by a lease on a mounted file, and by a write lock that needs no write access
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import fcntl
with open("/mnt/hostile/writable") as file:
    for high in (0, 1 << 32):
        for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
            try:
                refused("lease", "EPERM", fcntl.fcntl, file, 1024, kind)
            except OverflowError:
                pass
    refused("write lock", "EBADF", fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
with open("/tmp/own", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
wrong or "blocked"
