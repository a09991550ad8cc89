"""The rules of the system call filter on calls whose arguments matter, and the checks that they are made of.

A filter sees only numbers, never the memory behind a pointer. Each argument is 64 bits wide and a program may set all
of them, so a rule must compare exactly the bits that the kernel will use. ``int`` and ``unsigned int`` parameters lose
their high word in the kernel: to compare it as well would let ``request | 1 << 32`` through (CVE-2019-10063). For
``unsigned long`` parameters the comment says why one word is enough; for pointers both are compared.
"""

import errno
import os
import socket
import stat
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from gloveport.sandbox.seccomp.tables import load_socket_options

ALLOW = 0x7FFF_0000  # SECCOMP_RET_ALLOW
ASK = 0x7FC0_0000  # SECCOMP_RET_USER_NOTIF: the filter's listener answers; ENOSYS without one
_ERRNO = 0x0005_0000  # SECCOMP_RET_ERRNO: the call is not run and fails with the error in the low bits
IGNORE = _ERRNO  # it is not run, and succeeds
EPERM, ENOSYS, EAFNOSUPPORT = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS, _ERRNO | errno.EAFNOSUPPORT
EINVAL, ENOTTY = _ERRNO | errno.EINVAL, _ERRNO | errno.ENOTTY
ENOPROTOOPT, EOPNOTSUPP = _ERRNO | errno.ENOPROTOOPT, _ERRNO | errno.EOPNOTSUPP


# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6]. Little-endian: the low word comes first.
def _low(argument: int) -> int:
    return 16 + 8 * argument


def _high(argument: int) -> int:
    return _low(argument) + 4


class Unless(NamedTuple):
    """A check: unless ``word & mask`` is one of ``values``, ``answer`` ends the rule."""

    word: int
    values: Collection[int]
    answer: int
    mask: int = 0xFFFF_FFFF


class When(NamedTuple):
    """A case: when ``word`` is ``value``, the checks and then ``answer`` end the rule."""

    word: int
    value: int
    checks: "Checks"
    answer: int


Checks: TypeAlias = "tuple[Unless | When, ...]"


class ArgumentRule(NamedTuple):
    """Decides on a call by its arguments: the checks in order, then ``answer``."""

    name: str
    promise: str
    """One line on what is allowed, and the attack behind what is not."""

    checks: Checks
    answer: int


# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. And NEWTIME, 0x80: in plain clone that bit belongs to the
# exit signal and the kernel drops it, but no signal has such a number: refusing it costs nothing and relies on nothing.
_CLONE_NEW = 0x7E02_0000 | 0x80
_CLONE_PARENT = 0x8000
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
_F_SETFL = 4
OPEN_FILE_LOCKS = (36, 37, 38)  # F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
FCNTL_COMMANDS = (
    *range(12),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN … F_GETSIG
    *(15, 16, 17),  # F_SETOWN_EX, F_GETOWN_EX, F_GETOWNER_UIDS
    *(1025, 1027, 1028, 1030),  # F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY, F_DUPFD_CLOEXEC
    *(1032, 1033, 1034),  # F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS
    *(1035, 1036, 1037, 1038),  # F_GET_RW_HINT, F_SET_RW_HINT, F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT
)
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
IOCTLS = (
    *range(0x5401, 0x5412),  # terminals: TCGETS … TCFLSH, TIOCEXCL, TIOCNXCL, TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ
    *(0x5413, 0x5414, 0x541B),  # TIOCGWINSZ, TIOCSWINSZ, FIONREAD
    *(0x5420, 0x5421, 0x5422, 0x5424, 0x5425),  # TIOCPKT, FIONBIO, TIOCNOTTY, TIOCGETD, TCSBRKP
    *(0x5429, 0x802C_542A, 0x402C_542B, 0x402C_542C, 0x402C_542D),  # TIOCGSID, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2
    *(0x8004_5430, 0x4004_5431, 0x8004_5439, 0x5441),  # TIOCGPTN, TIOCSPTLCK, TIOCGPTLCK, TIOCGPTPEER
    *(0x5450, 0x5451, 0x5452, 0x5460),  # FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE
    *(0x8905, 0x8910, 0x8912, 0x8913),  # SIOCATMARK, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS
    *(0x8915, 0x8919, 0x891B, 0x8921, 0x8927, 0x8933),  # SIOCGIF: ADDR, BRDADDR, NETMASK, MTU, HWADDR, INDEX
    *(0x4004_9409, 0x4020_940D, 0xC018_9436),  # FICLONE, FICLONERANGE, FIDEDUPERANGE
    *(0x2, 0xC020_660B, 0x8008_6601, 0x8008_7601, 0x801C_581F),  # FIGETBSZ, FS_IOC: FIEMAP, GETFLAGS, GETVERSION, …
    0x8004_5200,  # RNDGETENTCNT
)
PRCTL_OPTIONS = (
    *(1, 2, 3, 4, 7, 8),  # PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_, PR_SET_: DUMPABLE, KEEPCAPS
    *(13, 15, 16, 21, 23, 24),  # PR_GET_TIMING, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ, _DROP
    *(25, 26, 27, 28, 29, 30),  # PR_GET_, PR_SET_: TSC, SECUREBITS, TIMERSLACK
    *(34, 36, 37, 38, 39, 40),  # PR_MCE_KILL_GET, CHILD_SUBREAPER, NO_NEW_PRIVS, PR_GET_TID_ADDRESS
    *(41, 42, 45, 46, 47),  # THP_DISABLE, FP_MODE, PR_CAP_AMBIENT
    *(52, 53, 55, 56, 59, 65, 66),  # SPECULATION_CTRL, TAGGED_ADDR_CTRL, PR_SET_SYSCALL_USER_DISPATCH, MDWE
    *(0x5356_4D41, 0x5961_6D61, 0x4155_5856),  # PR_SET_VMA, PR_SET_PTRACER, PR_GET_AUXV
)
_MADV_MERGEABLE, _MADV_PAGEOUT, _MADV_HWPOISON, _MADV_SOFT_OFFLINE = 12, 21, 100, 101
_FADV_DONTNEED = 4
_RWF_DSYNC, _RWF_SYNC, _RWF_APPEND, _RWF_NOAPPEND = 0x2, 0x4, 0x10, 0x20
_REFUSED_RWF = 0xFFFF_FFFF & ~(_RWF_DSYNC | _RWF_SYNC | _RWF_APPEND | _RWF_NOAPPEND)
_MAP_HUGETLB, _MFD_HUGETLB = 0x4_0000, 0x4
_RLIMIT_CORE = 4
_PER_LINUX, _PER_LINUX32, _PER_QUERY = 0, 8, 0xFFFF_FFFF
_SOCK_TYPE = 0xF  # the rest of socket's type argument are SOCK_CLOEXEC and SOCK_NONBLOCK
# Kinds that send only to their connected peer.
_LOCAL_SOCKET = (Unless(_low(1), (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), EPERM, mask=_SOCK_TYPE),)
_TMPFILE = 0o20000000  # O_TMPFILE without the O_DIRECTORY in it
_NODE_TYPE, _NODES = 0o170000, (0, stat.S_IFREG, stat.S_IFIFO)  # S_IFMT; 0 is a plain file too


def _plain(mode: int) -> Unless:
    """No set-user-id and no set-group-id bit among the mode."""
    return Unless(_low(mode), (0,), EPERM, mask=stat.S_ISUID | stat.S_ISGID)


def _refuse_direct_io(flags: int) -> Unless:
    """No O_DIRECT among the flags. The answer is that of file systems that don't know it."""
    return Unless(_low(flags), (0,), EINVAL, mask=os.O_DIRECT)


def _vector(name: str) -> ArgumentRule:
    promise = (
        "plain, appending and synchronous: RWF_NOWAIT tells what lies in the page cache, and so what others have read"
    )
    return ArgumentRule(name, promise, (Unless(_low(5), (0,), EOPNOTSUPP, mask=_REFUSED_RWF),), ALLOW)


def _mode(name: str, mode: int) -> ArgumentRule:
    promise = (
        "no set-user-id or set-group-id file: in a directory of the host it would lend its owner's rights to everybody"
    )
    return ArgumentRule(name, promise, (_plain(mode),), ALLOW)


def _opening(name: str, flags: int) -> ArgumentRule:
    promise = (
        "no O_DIRECT: it passes the page cache by, and a few such readers make each write of the host wait for its"
        " disk; else as chmod, where a file is made"
    )
    making = (os.O_CREAT, _TMPFILE, os.O_CREAT | _TMPFILE)
    checks = (
        _refuse_direct_io(flags),
        Unless(_low(flags), making, ALLOW, mask=os.O_CREAT | _TMPFILE),
        _plain(flags + 1),
    )
    return ArgumentRule(name, promise, checks, ALLOW)


def _node(name: str, mode: int) -> ArgumentRule:
    promise = "named pipes and plain files: a device node would be a way to the device; else as chmod"
    return ArgumentRule(name, promise, (Unless(_low(mode), _NODES, EPERM, mask=_NODE_TYPE), _plain(mode)), ALLOW)


def _socket_option_rules() -> tuple[ArgumentRule, ArgumentRule]:
    levels = load_socket_options().values()
    return (
        ArgumentRule(
            "setsockopt",
            "options that concern one socket alone. No membership in a multicast group: to tear down a million of them"
            " holds the lock of the host's network configuration for minutes; no filter, protocol (TCP_ULP), time stamp"
            " or anything else that the kernel keeps beside the socket. What is left out answers ENOPROTOOPT, as on a"
            " kernel without it. A size of buffers (SO_RCVBUF, SO_SNDBUF) is taken and ignored",
            tuple(_level(options.level, options.settable, ignored=options.ignored) for options in levels),
            ENOPROTOOPT,
        ),
        ArgumentRule(
            "getsockopt",
            "options that may be set, and what they are besides. No SO_PEERPIDFD: the other end may be the server. What"
            " is left out answers ENOPROTOOPT",
            tuple(_level(options.level, {**options.settable, **options.readable}) for options in levels),
            ENOPROTOOPT,
        ),
    )


def _level(level: int, allowed: Mapping[str, int], *, ignored: Mapping[str, int] = {}) -> When:
    """The case of one level of socket options: the allowed ones, and those that are accepted and ignored."""
    ignore_cases = (When(_low(2), option, (), IGNORE) for option in ignored.values())
    return When(_low(1), level, (*ignore_cases, Unless(_low(2), (*allowed.values(),), ENOPROTOOPT)), ALLOW)


def _scheduling(name: str, *, kinds: tuple[int, ...] = ()) -> ArgumentRule:
    """``kinds``: permitted values of the first argument, if that says whose number the second is."""
    promise = (
        "not of pid 1: to end a sandbox is to kill that, and it must get a processor to die; nor of groups and users"
    )
    of_one = (Unless(_low(0), kinds, EPERM),) if kinds else ()
    return ArgumentRule(name, promise, (*of_one, Unless(_low(len(of_one)), (1,), ALLOW)), EPERM)


_RULES = (
    ArgumentRule(  # flags: unsigned long, but the bit that is looked for lies in the low word
        "mmap",
        "no MAP_HUGETLB: huge pages come from a pool of the whole host, which no limit on memory counts",
        (Unless(_low(3), (0,), EPERM, mask=_MAP_HUGETLB),),
        ALLOW,
    ),
    ArgumentRule(
        "memfd_create",
        "no MFD_HUGETLB, as for mmap",
        (Unless(_low(1), (0,), EPERM, mask=_MFD_HUGETLB),),
        ALLOW,
    ),
    ArgumentRule(
        "ioctl",
        "terminals, sockets and files as every program uses them. Not TIOCSTI or TIOCLINUX (type into the terminal of"
        " whoever started us), TIOCSETD (loads and enters terminal drivers), nor what single drivers and file systems"
        " add. What else is left out answers ENOTTY, as a file that doesn't know it",
        (
            *(When(_low(1), request, (), EPERM) for request in (_TIOCSTI, _TIOCLINUX, _TIOCSETD)),
            Unless(_low(1), IOCTLS, ENOTTY),
        ),
        ALLOW,
    ),
    ArgumentRule(
        "prctl",
        "settings of the caller itself. No filter of its own (SECCOMP_RET_LOG writes to the host's log), no core"
        " scheduling (slows every processor of the host), no merging of memory (tells what lies in that of others),"
        " no change of the memory map. What is left out answers EINVAL, as on a kernel without it",
        (Unless(_low(0), PRCTL_OPTIONS, EINVAL),),
        ALLOW,
    ),
    ArgumentRule(
        "madvise",
        "no merging (as prctl), no MADV_PAGEOUT (takes shared files from the page cache), no test of broken memory",
        tuple(
            When(_low(2), advice, (), EINVAL)
            for advice in (_MADV_MERGEABLE, _MADV_PAGEOUT, _MADV_HWPOISON, _MADV_SOFT_OFFLINE)
        ),
        ALLOW,
    ),
    ArgumentRule(
        "fadvise64",
        "POSIX_FADV_DONTNEED succeeds and does nothing: to drop a shared file from the page cache and time its next"
        " read tells who else uses it, and makes everybody read it from the disk again",
        (When(_low(3), _FADV_DONTNEED, (), IGNORE),),
        ALLOW,
    ),
    *(_vector(name) for name in ("preadv2", "pwritev2")),
    ArgumentRule(  # flags: unsigned long, but no namespace flag lies in the high word, and plain clone drops it
        "clone",
        "no CLONE_NEW*: see Namespaces; no CLONE_PARENT: a child of the fork server, whom it knows nothing of, outlives"
        " all of its namespace as a zombie, and whoever waits for the end of that waits for ever",
        (Unless(_low(0), (0,), EPERM, mask=_CLONE_NEW | _CLONE_PARENT),),
        ALLOW,
    ),
    ArgumentRule(
        "socketpair",
        "AF_UNIX as stream or packets, which reach nobody but those who get an end: a datagram socket, though it has a"
        " partner, sends to any name, such as a socket of the host in a mounted directory",
        (
            Unless(_low(0), (socket.AF_UNIX,), EAFNOSUPPORT),
            *_LOCAL_SOCKET,
        ),
        ALLOW,
    ),
    ArgumentRule(
        "fcntl",
        "an allow-list. No F_SETLEASE: a lease on a mounted file of the same user stops whoever opens it for writing,"
        " for 45 seconds; no F_NOTIFY: thousands of watches on a shared directory slow each access to it by all of the"
        " host, and tell of it; no F_SETPIPE_SZ: large pipes use up what all processes of an ordinary user share; no"
        " F_SETFL with O_DIRECT, as open. No F_OFD_SETLK (EINVAL, as on a kernel without it): such a lock stays while"
        " the file is mapped, has no descriptor then by which it is found, and no account bounds how many there are",
        (
            *(When(_low(1), command, (), EINVAL) for command in OPEN_FILE_LOCKS),
            Unless(_low(1), FCNTL_COMMANDS, EPERM),
            When(_low(1), _F_SETFL, (_refuse_direct_io(2),), ALLOW),
        ),
        ALLOW,
    ),
    *(
        ArgumentRule(
            name,
            "no MSG_OOB: hardly used, and out-of-band data on AF_UNIX has been a way into the kernel (CVE-2025-38236)",
            (Unless(_low(flags), (0,), EPERM, mask=socket.MSG_OOB),),
            ALLOW,
        )
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
    ),
    ArgumentRule(
        "prlimit64",
        "no new RLIMIT_CORE: it is 1, which stops even a core handler of the host that reads a pipe; 0 does not. To set"
        " it succeeds and does nothing: sanitizers end where they can't lower it",
        (
            Unless(_low(1), (_RLIMIT_CORE,), ALLOW),
            # Two pointers, null only if both words are zero: without a new limit it is a question.
            When(_low(2), 0, (Unless(_high(2), (0,), EPERM),), ALLOW),
            Unless(_low(3), (0,), EPERM),  # who asks for the old one as well would read what nobody has written
            Unless(_high(3), (0,), EPERM),
        ),
        IGNORE,
    ),
    ArgumentRule("setrlimit", "as prlimit64", (Unless(_low(0), (_RLIMIT_CORE,), ALLOW),), IGNORE),
    *(_scheduling(name) for name in ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr")),
    _scheduling("setpriority", kinds=(_PRIO_PROCESS,)),
    _scheduling("ioprio_set", kinds=(_IOPRIO_WHO_PROCESS,)),
    *(_mode(name, mode) for name, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))),
    _mode("creat", 1),
    *(_opening(name, flags) for name, flags in (("open", 1), ("openat", 2))),
    _node("mknod", 1),
    _node("mknodat", 2),
    ArgumentRule(
        "personality",
        "ask, or take Linux or 32-bit Linux: others bring back weak memory layouts that help exploits",
        (Unless(_low(0), (_PER_LINUX, _PER_LINUX32, _PER_QUERY), EPERM),),
        ALLOW,
    ),
)


_COUNTED = "counted for each sandbox, which has a few of them"
_SHM_HUGETLB = 0o4000
_OF_NAMESPACE = "of the sandbox's own namespace, which bounds their number and size"
_SUPERVISED_RULES = (
    *(ArgumentRule(name, _COUNTED, (), ALLOW) for name in ("inotify_init", "inotify_init1")),
    ArgumentRule(
        "inotify_add_watch",
        "made for the program by the server, beneath its workspace and its own directories: elsewhere it would tell of"
        " the host's use of shared files and devices, and slow it",
        (),
        ASK,
    ),
    ArgumentRule("inotify_rm_watch", "of its own watches", (), ALLOW),
    ArgumentRule(
        "shmget",
        f"{_OF_NAMESPACE}. No SHM_HUGETLB, as for mmap",
        (Unless(_low(2), (0,), EPERM, mask=_SHM_HUGETLB),),
        ALLOW,
    ),
    *(
        ArgumentRule(name, _OF_NAMESPACE, (), ALLOW)
        for name in ("shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl")
    ),
)
_CONNECT_RULE = ArgumentRule(
    "connect",
    "made for the program by the server, since a filter sees neither which kind of socket it is nor where a path leads:"
    " by a path to sockets in the sandbox's own directories alone. One of the host's in a directory that is shown would"
    " be reached too, whatever the network namespace and whether or not it can be written there",
    (),
    ASK,
)


_TRACING_RULES = tuple(
    ArgumentRule(
        name, "processes of the sandbox's own pid namespace, by whom the kernel lets: the operator's word", (), ALLOW
    )
    for name in ("ptrace", "process_vm_readv", "process_vm_writev")
)


def rules(families: frozenset[int], *, supervised: bool = False, ptrace: bool = False) -> tuple[ArgumentRule, ...]:
    """The rules on arguments. ``socket()`` may use ``families``. ``supervised`` programs have what the server
    supervises: file notifications, System V objects and, if the families lack AF_UNIX, local sockets within the sandbox
    itself. With ``ptrace`` they may trace each other.
    """
    local = supervised and socket.AF_UNIX not in families
    return (
        *_RULES,
        *(_SUPERVISED_RULES if supervised else ()),
        *((_CONNECT_RULE,) if local else ()),
        *(_TRACING_RULES if ptrace else ()),
        *_socket_option_rules(),
        ArgumentRule(
            "socket",
            "the granted families as streams or datagrams over their default protocol, TCP or UDP: no raw, netlink,"
            " packet, vsock or crypto socket, and none of the rarely used protocols that exploits come from"
            + (". AF_UNIX as stream or packets, as for socketpair" if local else ""),
            (
                *((When(_low(0), socket.AF_UNIX, _LOCAL_SOCKET, ALLOW),) if local else ()),
                Unless(_low(0), families, EAFNOSUPPORT),
                Unless(_low(1), (socket.SOCK_STREAM, socket.SOCK_DGRAM), EPERM, mask=_SOCK_TYPE),
                Unless(_low(2), (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP), EPERM),
            ),
            ALLOW,
        ),
    )
