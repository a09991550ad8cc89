"""The system call filter: a classic-BPF program, made of the tables in ``syscalls`` and the rules on arguments below.

What it promises: a call of another architecture ends the process; a call that nobody decided on answers ENOSYS, so that
a new kernel opens nothing; every rule ends in an answer, none falls through to the next.

A filter sees numbers only, never what a pointer points to. Each argument is 64 bits wide and a program may set all of
them, so a rule must compare exactly the bits that the kernel will use. ``int`` and ``unsigned int`` parameters lose
their high word in the kernel: to compare it as well would let ``request | 1 << 32`` through (CVE-2019-10063). For
``unsigned long`` parameters the comment says why one word is enough; for pointers both are compared.
"""

import errno
import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import NamedTuple

from gloveport.errors import SandboxError
from gloveport.sandbox.syscalls import ABSENT, ALLOWED, NUMBERS, REFUSED

ALLOW = 0x7FFF_0000  # SECCOMP_RET_ALLOW
KILL = 0x8000_0000  # SECCOMP_RET_KILL_PROCESS
_ERRNO = 0x0005_0000  # SECCOMP_RET_ERRNO: the call is not run and fails with the error in the low bits
EPERM, ENOSYS, EAFNOSUPPORT = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS, _ERRNO | errno.EAFNOSUPPORT

_ARCHITECTURES = {"x86_64": 0xC000_003E}  # AUDIT_ARCH_X86_64
_X32 = 0x4000_0000  # set in the number of an x32 call, which the architecture does not tell from a native one

# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6]. Little-endian: the low word comes first.
_NUMBER, _ARCHITECTURE = 0, 4


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


class Rule(NamedTuple):
    """What decides on calls whose arguments matter: the checks in order, then ``answer``."""

    name: str
    promise: str
    """One line on what is allowed, and the attack behind what is not."""

    checks: tuple[Unless, ...]
    answer: int


# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. And NEWTIME, 0x80: in plain clone that bit belongs to the
# exit signal and the kernel drops it, but no signal has such a number: refusing it costs nothing and relies on nothing.
_CLONE_NEW = 0x7E02_0000 | 0x80
_CLONE_PARENT = 0x8000
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_TCP_ULP = 31
_F_SETLEASE, _F_SETPIPE_SZ = 1024, 1031
_MAP_HUGETLB, _MFD_HUGETLB = 0x4_0000, 0x4
_RLIMIT_CORE = 4
_PER_LINUX, _PER_LINUX32, _PER_QUERY = 0, 8, 0xFFFF_FFFF
_SOCK_TYPE = 0xF  # the rest of socket's type argument are SOCK_CLOEXEC and SOCK_NONBLOCK
_TMPFILE = 0o20000000  # O_TMPFILE without the O_DIRECTORY in it
_NODE_TYPE, _NODES = 0o170000, (0, stat.S_IFREG, stat.S_IFIFO)  # S_IFMT; 0 is a plain file too


def _plain(mode: int) -> Unless:
    """No set-user-id and no set-group-id bit among the mode."""
    return Unless(_low(mode), (0,), EPERM, mask=stat.S_ISUID | stat.S_ISGID)


def _mode(name: str, mode: int) -> Rule:
    promise = (
        "no set-user-id or set-group-id file: in a directory of the host it would lend its owner's rights to everybody"
    )
    return Rule(name, promise, (_plain(mode),), ALLOW)


def _opening(name: str, flags: int) -> Rule:
    promise = "as chmod, where a file is made"
    making = (os.O_CREAT, _TMPFILE, os.O_CREAT | _TMPFILE)
    checks = (Unless(_low(flags), making, ALLOW, mask=os.O_CREAT | _TMPFILE), _plain(flags + 1))
    return Rule(name, promise, checks, ALLOW)


def _node(name: str, mode: int) -> Rule:
    promise = "named pipes and plain files: a device node would be a way to the device; else as chmod"
    return Rule(name, promise, (Unless(_low(mode), _NODES, EPERM, mask=_NODE_TYPE), _plain(mode)), ALLOW)


def _scheduling(name: str, *, kinds: tuple[int, ...] = ()) -> Rule:
    """``kinds``: of whom the second argument is the number, where the first says that."""
    promise = (
        "not of pid 1: to end a sandbox is to kill that, and it must get a processor to die; nor of groups and users"
    )
    of_one = (Unless(_low(0), kinds, EPERM),) if kinds else ()
    return Rule(name, promise, (*of_one, Unless(_low(len(of_one)), (1,), ALLOW)), EPERM)


_RULES = (
    Rule(  # flags: unsigned long, but the bit that is looked for lies in the low word
        "mmap",
        "no MAP_HUGETLB: huge pages come from a pool of the whole host, which no limit on memory counts",
        (Unless(_low(3), (0,), EPERM, mask=_MAP_HUGETLB),),
        ALLOW,
    ),
    Rule(
        "memfd_create",
        "no MFD_HUGETLB, as for mmap",
        (Unless(_low(1), (0,), EPERM, mask=_MFD_HUGETLB),),
        ALLOW,
    ),
    Rule(
        "ioctl",
        "no TIOCSTI or TIOCLINUX (type into the terminal of whoever started us), no TIOCSETD (loads and enters"
        " terminal drivers)",
        (Unless(_low(1), (_TIOCSTI, _TIOCLINUX, _TIOCSETD), ALLOW),),
        EPERM,
    ),
    Rule(  # flags: unsigned long, but no namespace flag lies in the high word, and plain clone drops it
        "clone",
        "no CLONE_NEW*: see Namespaces; no CLONE_PARENT: a child of the fork server, whom it knows nothing of, outlives"
        " all of its namespace as a zombie, and whoever waits for the end of that waits for ever",
        (Unless(_low(0), (0,), EPERM, mask=_CLONE_NEW | _CLONE_PARENT),),
        ALLOW,
    ),
    Rule(
        "socketpair",
        "AF_UNIX as stream or packets, which reach nobody but those who get an end: a datagram socket, though it has a"
        " partner, sends to any name, such as a socket of the host in a mounted directory",
        (
            Unless(_low(0), (socket.AF_UNIX,), EAFNOSUPPORT),
            Unless(_low(1), (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), EPERM, mask=_SOCK_TYPE),
        ),
        ALLOW,
    ),
    Rule(
        "fcntl",
        "no F_SETLEASE: a lease on a mounted file of the same user stops whoever opens it for writing, for 45 seconds;"
        " no F_SETPIPE_SZ: large pipes use up what all processes of an ordinary user share",
        (Unless(_low(1), (_F_SETLEASE, _F_SETPIPE_SZ), ALLOW),),
        EPERM,
    ),
    *(
        Rule(
            name,
            "no MSG_OOB: hardly used, and out-of-band data on AF_UNIX has been a way into the kernel (CVE-2025-38236)",
            (Unless(_low(flags), (0,), EPERM, mask=socket.MSG_OOB),),
            ALLOW,
        )
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
    ),
    Rule(
        "setsockopt",
        "no TCP_ULP: puts protocol code of the kernel (TLS) on a socket, a steady source of exploits",
        (Unless(_low(1), (socket.IPPROTO_TCP,), ALLOW), Unless(_low(2), (_TCP_ULP,), ALLOW)),
        EPERM,
    ),
    Rule(
        "prlimit64",
        "no new RLIMIT_CORE: it is 1, which stops even a core handler of the host that reads a pipe; 0 does not",
        (
            Unless(_low(1), (_RLIMIT_CORE,), ALLOW),
            Unless(_low(2), (0,), EPERM),  # a pointer: null, that is a question, only if both words are zero
            Unless(_high(2), (0,), EPERM),
        ),
        ALLOW,
    ),
    Rule("setrlimit", "as prlimit64", (Unless(_low(0), (_RLIMIT_CORE,), ALLOW),), EPERM),
    *(_scheduling(name) for name in ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr")),
    _scheduling("setpriority", kinds=(_PRIO_PROCESS,)),
    _scheduling("ioprio_set", kinds=(_IOPRIO_WHO_PROCESS,)),
    *(_mode(name, mode) for name, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))),
    _mode("creat", 1),
    *(_opening(name, flags) for name, flags in (("open", 1), ("openat", 2))),
    _node("mknod", 1),
    _node("mknodat", 2),
    Rule(
        "personality",
        "ask, or take Linux or 32-bit Linux: others bring back weak memory layouts that help exploits",
        (Unless(_low(0), (_PER_LINUX, _PER_LINUX32, _PER_QUERY), EPERM),),
        ALLOW,
    ),
)


def rules(families: frozenset[int]) -> tuple[Rule, ...]:
    """The rules on arguments.

    Args:
        families: Address families that ``socket()`` may use.
    """
    return (
        *_RULES,
        Rule(
            "socket",
            "the granted families as streams or datagrams over their default protocol, TCP or UDP: no raw, netlink,"
            " packet, vsock or crypto socket, and none of the rarely used protocols that exploits come from",
            (
                Unless(_low(0), families, EAFNOSUPPORT),
                Unless(_low(1), (socket.SOCK_STREAM, socket.SOCK_DGRAM), EPERM, mask=_SOCK_TYPE),
                Unless(_low(2), (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP), EPERM),
            ),
            ALLOW,
        ),
    )


def compile_filter(machine: str, families: frozenset[int]) -> bytes:
    """The filter as an array of ``struct sock_filter``: what bubblewrap and ``PR_SET_SECCOMP`` load. Pure.

    Args:
        machine: The host's architecture, as ``os.uname().machine`` says it.
        families: Address families that ``socket()`` may use.

    Raises:
        SandboxError: There are no rules for this architecture.
    """
    if machine not in NUMBERS:
        raise SandboxError(
            f"no system call filter for the architecture {machine!r}",
            hint=f"run on one of: {', '.join(sorted(NUMBERS))}",
        )
    numbers = NUMBERS[machine]
    code = [
        _load(_ARCHITECTURE),
        _jump_equal(_ARCHITECTURES[machine], then=1),
        _answer(KILL),
        _load(_NUMBER),
        _jump_any_bit(_X32, otherwise=1),
        _answer(KILL),
    ]
    conditional = {numbers[rule.name]: rule for rule in rules(families)}
    for number, rule in conditional.items():
        body = [*_checks(rule), _answer(rule.answer)]
        code += [_jump_equal(number, otherwise=len(body)), *body]
    answers = {
        numbers[name]: answer
        for answer, groups in ((ALLOW, ALLOWED), (EPERM, REFUSED), (ENOSYS, ABSENT))
        for group in groups
        for name in group.names
    }
    # What is left depends on the number alone. A ladder in rising order: what no lower rung took and is not above this
    # run of equal answers belongs to it. The kernel works out such answers once, when the filter is loaded.
    rest = (number for number in range(max(numbers.values()) + 1) if number not in conditional)
    for answer, run in groupby(rest, lambda number: answers.get(number, ENOSYS)):
        code += [_jump_greater(max(run), then=1), _answer(answer)]
    return b"".join([*code, _answer(ENOSYS)])


def _checks(rule: Rule) -> Iterator[bytes]:
    for check in rule.checks:
        yield _load(check.word)
        if check.mask != 0xFFFF_FFFF:
            yield _and(check.mask)
        for left, value in zip(range(len(check.values), 0, -1), sorted(check.values), strict=True):
            yield _jump_equal(value, then=left)  # over the values that are left and the answer
        yield _answer(check.answer)


def _instruction(code: int, constant: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, constant)  # jumps skip so many instructions


def _load(offset: int) -> bytes:
    return _instruction(0x20, offset)  # BPF_LD | BPF_W | BPF_ABS


def _and(mask: int) -> bytes:
    return _instruction(0x54, mask)  # BPF_ALU | BPF_AND | BPF_K


def _jump_equal(constant: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return _instruction(0x15, constant, then, otherwise)  # BPF_JMP | BPF_JEQ | BPF_K


def _jump_greater(constant: int, *, then: int) -> bytes:
    return _instruction(0x25, constant, then)  # BPF_JMP | BPF_JGT | BPF_K; unsigned


def _jump_any_bit(mask: int, *, otherwise: int) -> bytes:
    return _instruction(0x45, mask, 0, otherwise)  # BPF_JMP | BPF_JSET | BPF_K


def _answer(value: int) -> bytes:
    return _instruction(0x06, value)  # BPF_RET | BPF_K
