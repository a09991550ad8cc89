# expect: value "blocked"
# proves: E9, T4
# tries: read kernel memory and addresses: kcore, kallsyms, kmsg, modules, pagemap, timer_list, iomem
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


for name in ("kcore", "kmsg", "kpagecount", "kpageflags", "vmallocinfo", "slabinfo", "timer_list", "sched_debug", "vmcore"):
    refused(name, "EACCES ENOENT EPERM", os.open, f"/proc/{name}", os.O_RDONLY)
for name, pattern in (("kallsyms", 0), ("modules", -1), ("iomem", 0)):
    try:
        with open(f"/proc/{name}") as file:
            for line in file:
                for word in (line.replace("-", " ").split() if pattern else line.split()[:1]):
                    digits = word.removeprefix("0x").strip(":").split("-")[0]
                    if len(digits) >= 8 and set(digits) <= set("0123456789abcdef") and int(digits, 16):
                        wrong[name] = f"ESCAPED: an address: {line}"
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT):
            wrong[name] = str(error)
with open("/proc/self/pagemap", "rb") as file:
    file.seek(id(file) // 4096 * 8)
    if int.from_bytes(file.read(8), "little") & (1 << 55) - 1:
        wrong["pagemap"] = "ESCAPED: a physical address"
wrong or "blocked"
