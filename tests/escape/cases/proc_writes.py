# expect: value "blocked"
# proves: E9
# tries: write kernel settings below /proc: core_pattern, printk_ratelimit, sysrq, memory and ids of processes
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


for name in (
    "sys/kernel/core_pattern sys/kernel/printk_ratelimit sys/kernel/modprobe sys/kernel/hostname sys/vm/drop_caches"
    " sys/vm/overcommit_memory sys/fs/protected_symlinks sys/net/ipv4/ip_forward sys/net/ipv4/ip_unprivileged_port_start"
    " sys/kernel/ns_last_pid sys/user/max_user_namespaces sys/fs/binfmt_misc/register"
).split():
    refused(name, "EROFS EACCES ENOENT", os.open, f"/proc/{name}", os.O_WRONLY)
for name in (
    "sysrq-trigger self/oom_score_adj self/uid_map self/gid_map self/setgroups self/loginuid self/comm self/clear_refs"
    " self/coredump_filter self/attr/current self/timerslack_ns self/mem 1/oom_score_adj 1/uid_map 1/mem irq/default_smp_affinity"
    " mtrr timer_list acpi/wakeup"
).split():
    refused(name, "EROFS EACCES ENOENT EPERM", os.open, f"/proc/{name}", os.O_WRONLY)
if not os.path.exists("/proc/sys/kernel/core_pattern") or not os.path.exists("/proc/self/oom_score_adj"):
    wrong["evidence"] = "the files are not there to be tried"
wrong or "blocked"
