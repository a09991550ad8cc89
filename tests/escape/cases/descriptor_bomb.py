# expect: value "blocked"
# proves: E4
# limits: open_files=64
# tries: open descriptors until it is refused, also by dup2 to a high number and by fcntl
import errno, fcntl, os
wrong, opened = {}, []
try:
    while len(opened) < 10_000:
        opened.append(os.dup(0))
    wrong["dup"] = f"ESCAPED: {len(opened)}"
except OSError as error:
    if error.errno != errno.EMFILE or len(opened) > 64:
        wrong["dup"] = str(error)
for name, attempt in {"dup2": lambda: os.dup2(0, 5000), "F_DUPFD": lambda: fcntl.fcntl(0, fcntl.F_DUPFD, 5000)}.items():
    try:
        wrong[name] = f"ESCAPED: {attempt()}"
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.EINVAL):
            wrong[name] = str(error)
wrong or "blocked"
