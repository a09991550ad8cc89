# expect: alike
# proves: E4, E9
# tries: find a limit, a mask or a right that is wider in one kind of sandbox than in the other
import os, resource, signal
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
NAMES = ("Umask", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk", "SigIgn", "SigCgt", "Uid", "Gid", "Groups", "Cpus_allowed", "Mems_allowed", "THP_enabled", "CoreDumping", "Speculation_Store_Bypass", "x86_Thread_features_locked")
{
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "status": {name: status.get(name) for name in NAMES},
    "scheduling": [os.nice(0), os.sched_getscheduler(0)],
    "signals": {int(number): str(signal.getsignal(number)) for number in signal.valid_signals() if number > 0 and signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler)},
    "dumpable": open("/proc/self/coredump_filter").read(),
    "oom": open("/proc/self/oom_score_adj").read(),
    "uname": os.uname().nodename,
    "cwd": os.getcwd(),
}
