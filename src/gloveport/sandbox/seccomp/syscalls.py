"""Which system calls a sandbox may make, and why: data only. ``seccomp`` turns it into a filter.

Every name of ``NUMBERS`` is decided exactly once: in a group of ``ALLOWED``, ``REFUSED`` or ``ABSENT``, or by a rule on
its arguments in ``filter_rules``. ``docs/seccomp.md`` is made of these tables.
"""

from collections.abc import Mapping
from typing import NamedTuple


class SyscallGroup(NamedTuple):
    """System calls that are decided alike, for one reason."""

    title: str
    reason: str
    """One line: the purpose of what is allowed, the attack behind what is refused."""

    names: tuple[str, ...]


def _group(title: str, reason: str, names: str) -> SyscallGroup:
    return SyscallGroup(title, reason, tuple(names.split()))


ALLOWED = (
    _group(
        "Bytes in and out",
        "read and write what is open already",
        "read write readv writev pread64 pwrite64 preadv pwritev lseek sendfile splice tee"
        " copy_file_range pipe pipe2 dup dup2 dup3 close close_range flock fsync fdatasync sync_file_range"
        " readahead fallocate truncate ftruncate",
    ),
    _group(
        "Open files",
        "mounts, file modes and Landlock decide which",
        "access faccessat faccessat2",
    ),
    _group(
        "Look at files",
        "metadata and directory listings",
        "stat fstat lstat newfstatat statx statfs fstatfs getdents getdents64 readlink readlinkat getcwd getxattr"
        " lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat",
    ),
    _group(
        "Change files",
        "names, modes, owners and times in the private file systems; every other mount is read-only",
        "rename renameat renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat"
        " chown fchown lchown fchownat umask utime utimes futimesat utimensat chdir fchdir"
        " setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat",
    ),
    _group(
        "Memory",
        "the caller's own address space",
        "brk mprotect munmap mremap msync mlock mlock2 munlock mlockall munlockall mseal"
        " map_shadow_stack pkey_alloc pkey_free pkey_mprotect membarrier",
    ),
    _group(
        "Processes",
        "start, await and name processes of the sandbox's own pid namespace",
        "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid setpgid getpgrp"
        " getsid setsid pidfd_open set_tid_address arch_prctl",
    ),
    _group(
        "Threads",
        "locks and per-thread state of the C library",
        "futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list rseq getcpu",
    ),
    _group(
        "Signals",
        "send, block and await signals; no process outside the sandbox has a number to send one to",
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo"
        " rt_sigsuspend sigaltstack signalfd signalfd4 kill tkill tgkill pidfd_send_signal pause restart_syscall",
    ),
    _group(
        "Wait for events",
        "event loops",
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd"
        " eventfd2",
    ),
    _group(
        "Clocks and timers",
        "read the time, sleep, be woken",
        "time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep alarm getitimer setitimer"
        " timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime"
        " timerfd_gettime",
    ),
    _group(
        "Sockets",
        "use a socket: which ones exist is decided when they are made, whom they reach by the network namespace",
        "connect bind listen accept accept4 shutdown getsockname getpeername recvfrom recvmsg recvmmsg",
    ),
    _group(
        "Identity",
        "read one's ids; without capabilities none can be gained",
        "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid"
        " setresgid setfsuid setfsgid setgroups capget capset",
    ),
    _group(
        "Scheduling",
        "priorities and processors; they are changed by calls whose arguments are looked at",
        "sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max"
        " sched_get_priority_min sched_rr_get_interval getpriority ioprio_get",
    ),
    _group(
        "About the system",
        "what is running, what was used, random numbers",
        "uname sysinfo times getrusage getrlimit getrandom",
    ),
    _group(
        "Confine oneself further",
        "the sandbox's first process applies Landlock under this filter; a program may add walls, never remove one",
        "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    _group(
        "Tracing by the host",
        "entered by the kernel's own code in a program that the operator probes; made otherwise, they kill the caller",
        "uretprobe uprobe",
    ),
)

REFUSED = (
    _group(
        "Namespaces",
        "a new user namespace gives every capability inside it, and with them the kernel code most exploits start from",
        "unshare setns",
    ),
    _group(
        "Mounts and roots",
        "would uncover what a mount hides, or make a read-only mount writable",
        "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick"
        " mount_setattr",
    ),
    _group(
        "Mount and namespace lists",
        "tell host paths and how the sandbox is built",
        "statmount listmount listns",
    ),
    _group(
        "Files by handle",
        "a guessed handle opens a file outside every mount of the sandbox",
        "name_to_handle_at open_by_handle_at",
    ),
    _group(
        "Other processes",
        "read, steer or rob a process that may hold more than the caller",
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp",
    ),
    _group(
        "io_uring",
        "its operations run without passing a system call filter; a steady source of kernel exploits",
        "io_uring_setup io_uring_enter io_uring_register",
    ),
    _group(
        "Kernel programs and tracing",
        "code run in the kernel, and counters that leak its addresses and other programs' secrets",
        "bpf perf_event_open",
    ),
    _group("userfaultfd", "stops the kernel in the middle of a copy, which makes its races winnable", "userfaultfd"),
    _group(
        "vmsplice",
        "lends pages to the kernel that the caller can still change: the tool of several privilege escalations",
        "vmsplice",
    ),
    _group(
        "Secret memory",
        "pages that no tool of the host can inspect or dump",
        "memfd_secret",
    ),
    _group(
        "Keyrings",
        "keys belong to a user, not to a namespace: what the host or another sandbox stored could be used",
        "add_key request_key keyctl",
    ),
    _group(
        "Kernel replacement",
        "load code into the kernel, or another kernel",
        "kexec_load kexec_file_load create_module init_module finit_module delete_module get_kernel_syms query_module",
    ),
    _group(
        "System V shared memory, semaphores and messages",
        "memory that outlives its process and that no resource limit counts",
        "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl",
    ),
    _group(
        "POSIX message queues",
        "memory that outlives its process; thread libraries build their semaphores without them",
        "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
    _group(
        "Placement of memory",
        "moves pages between memory nodes: slows the host, and tells where other programs' pages lie",
        "mbind migrate_pages move_pages set_mempolicy get_mempolicy set_mempolicy_home_node",
    ),
    _group(
        "Page cache statistics",
        "shows which parts of a shared file others have read: a channel between host and sandbox",
        "cachestat mincore",
    ),
    _group(
        "Stalls for everybody",
        "write back every dirty page of a host file system: a loop of it halts other programs' writes",
        "sync syncfs",
    ),
    _group(
        "The host's clock",
        "certificates, logs and leases of the host depend on it",
        "settimeofday clock_settime clock_adjtime adjtimex",
    ),
    _group(
        "The host's settings",
        "name, swap, accounting, quotas, log, terminal and power of the whole machine",
        "sethostname setdomainname swapon swapoff acct quotactl quotactl_fd syslog vhangup reboot _sysctl nfsservctl"
        " lookup_dcookie",
    ),
    _group(
        "Hardware and segments",
        "raw ports and descriptor tables: privileged, rarely used and often wrong kernel code",
        "iopl ioperm modify_ldt",
    ),
    _group(
        "Watching whole file systems",
        "sees the accesses of other programs, and can hold them up",
        "fanotify_init fanotify_mark",
    ),
    _group(
        "Security modules",
        "changes the label that the host's security module judges by, or tells which modules there are",
        "lsm_get_self_attr lsm_set_self_attr lsm_list_modules",
    ),
)
"""Answered with EPERM."""

ABSENT = (
    _group(
        "File notifications",
        "an ordinary user's share of them is one for the whole host, and soon used up; programs fall back to looking",
        "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
    ),
    _group(
        "Filters of one's own",
        "SECCOMP_RET_LOG in one writes to the host's log, as often as the program likes",
        "seccomp",
    ),
    _group(
        "clone3",
        "its flags lie in memory, where a filter can't see CLONE_NEW*; the C library falls back to clone",
        "clone3",
    ),
    _group(
        "openat2",
        "the mode of what it makes lies in memory, where a filter can't see a set-user-id bit; programs use openat",
        "openat2",
    ),
    _group(
        "Kernel asynchronous I/O",
        "each queue takes from one limit of the whole host (fs.aio-max-nr); programs fall back to threads",
        "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
    ),
    _group(
        "File attributes by path",
        "too new to be needed; programs fall back to ioctl on an open file",
        "file_getattr file_setattr",
    ),
    _group(
        "Obsolete",
        "removed or replaced long ago; on an old kernel they would only be more to attack",
        "uselib ustat sysfs remap_file_pages set_thread_area get_thread_area epoll_ctl_old epoll_wait_old getpmsg"
        " putpmsg afs_syscall tuxcall security vserver",
    ),
)
"""Answered with ENOSYS, as by a kernel that was built without them: programs then choose another way by themselves."""


def _number_rows(rows: Mapping[int, str]) -> dict[str, int]:
    return {name: first + place for first, row in rows.items() for place, name in enumerate(row.split())}


NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": _number_rows(
        {
            0: "read write open close stat fstat lstat poll lseek mmap",
            10: "mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv",
            20: "writev access pipe select sched_yield mremap msync mincore madvise shmget",
            30: "shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid",
            40: "sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind",
            50: "listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve",
            60: "exit wait4 kill uname semget semop semctl shmdt msgget msgsnd",
            70: "msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd",
            80: "chdir fchdir rename mkdir rmdir creat link unlink symlink readlink",
            90: "chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo",
            100: "times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid",
            110: "getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid",
            120: "getresgid getpgid setfsuid setfsgid getsid",
            125: "capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo",
            130: "rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs",
            140: "getpriority setpriority sched_setparam sched_getparam sched_setscheduler",
            145: "sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock",
            150: "munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex",
            160: "setrlimit chroot sync acct settimeofday mount umount2 swapon swapoff reboot",
            170: "sethostname setdomainname iopl ioperm create_module",
            175: "init_module delete_module get_kernel_syms query_module quotactl",
            180: "nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead setxattr lsetxattr",
            190: "fsetxattr getxattr lgetxattr fgetxattr listxattr",
            195: "llistxattr flistxattr removexattr lremovexattr fremovexattr",
            200: "tkill time futex sched_setaffinity sched_getaffinity",
            205: "set_thread_area io_setup io_destroy io_getevents io_submit",
            210: "io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old",
            215: "epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall",
            220: "semtimedop fadvise64 timer_create timer_settime timer_gettime",
            225: "timer_getoverrun timer_delete clock_settime clock_gettime clock_getres",
            230: "clock_nanosleep exit_group epoll_wait epoll_ctl tgkill",
            235: "utimes vserver mbind set_mempolicy get_mempolicy",
            240: "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify",
            245: "mq_getsetattr kexec_load waitid add_key request_key",
            250: "keyctl ioprio_set ioprio_get inotify_init inotify_add_watch",
            255: "inotify_rm_watch migrate_pages openat mkdirat mknodat",
            260: "fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat",
            270: "pselect6 ppoll unshare set_robust_list get_robust_list",
            275: "splice tee sync_file_range vmsplice move_pages",
            280: "utimensat epoll_pwait signalfd timerfd_create eventfd",
            285: "fallocate timerfd_settime timerfd_gettime accept4 signalfd4",
            290: "eventfd2 epoll_create1 dup3 pipe2 inotify_init1",
            295: "preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg",
            300: "fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at",
            305: "clock_adjtime syncfs sendmmsg setns getcpu",
            310: "process_vm_readv process_vm_writev kcmp finit_module sched_setattr",
            315: "sched_getattr renameat2 seccomp getrandom memfd_create",
            320: "kexec_file_load bpf execveat userfaultfd membarrier",
            325: "mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect",
            330: "pkey_alloc pkey_free statx io_pgetevents rseq uretprobe uprobe",
            424: "pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount",
            430: "fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2",
            440: "process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset",
            445: "landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv",
            450: "set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake",
            455: "futex_wait futex_requeue statmount listmount lsm_get_self_attr",
            460: "lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat",
            465: "listxattrat removexattrat open_tree_attr file_getattr file_setattr",
            470: "listns",
        }
    ),
}
"""By machine, as ``os.uname().machine`` says it: the kernel's numbers. Each row counts on from its first number."""
