"""E9: the system call filter, judged argument by argument by an interpreter of its own.

``python tests/sandbox/test_seccomp.py`` writes docs/seccomp.md anew.
"""

import errno
import os
import re
import socket
import stat
import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import SandboxError
from gloveport.sandbox.seccomp.argument_rules import FCNTL_COMMANDS, IOCTLS, OPEN_FILE_LOCKS, PRCTL_OPTIONS, rules
from gloveport.sandbox.seccomp.compiler import compile_filter
from gloveport.sandbox.seccomp.tables import SyscallGroup, load_socket_options, load_syscalls

PAGE = Path(__file__).parents[2] / "docs" / "seccomp.md"
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})
FILTER = compile_filter("x86_64", INTERNET)
SYSCALLS = load_syscalls()
NUMBER = SYSCALLS.numbers["x86_64"]
CONDITIONAL = {rule.name for rule in rules(INTERNET)}
SUPERVISED = compile_filter("x86_64", INTERNET, supervised=True)
ASK = 0x7FC00000
X86_64, I386, X32 = 0xC000003E, 0x40000003, 0x40000000


def error(code: int) -> int:
    return 0x50000 | code


ALLOW, KILL = 0x7FFF0000, 0x80000000  # of the whole process, not of one thread
EPERM, ENOSYS, EAFNOSUPPORT = error(errno.EPERM), error(errno.ENOSYS), error(errno.EAFNOSUPPORT)
EINVAL, ENOTTY = error(errno.EINVAL), error(errno.ENOTTY)
ENOPROTOOPT, EOPNOTSUPP = error(errno.ENOPROTOOPT), error(errno.EOPNOTSUPP)
IGNORED = error(0)


# The interpreter: every kind of instruction that the filter uses; another one is a KeyError.


def answer(nr: int, *args: int, arch: int = X86_64, code: bytes = FILTER) -> int:
    padded = [arg & (1 << 64) - 1 for arg in (*args, *[0] * (6 - len(args)))]
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, arch, 0x7FFF_0000_1000, *padded)
    program = list(struct.iter_unpack("<HBBI", code))
    accumulator, at = 0, 0
    while True:
        operation, then, otherwise, constant = program[at]
        at += 1
        if operation == 0x20:
            assert constant % 4 == 0
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif operation == 0x54:
            accumulator &= constant
        elif operation == 0x06:
            return constant
        else:
            holds = {
                0x15: accumulator == constant,
                0x25: accumulator > constant,
                0x45: accumulator & constant != 0,
            }[operation]
            at += then if holds else otherwise


def call(name: str, *args: int, code: bytes = FILTER) -> int:
    return answer(NUMBER[name], *args, code=code)


words = st.integers(0, (1 << 32) - 1)
longs = st.integers(0, (1 << 64) - 1)


def long(*low: int) -> st.SearchStrategy[int]:
    """A 64-bit argument: a likely low word under any high word, or anything."""
    return st.one_of(st.builds(lambda word, high: high << 32 | word, st.sampled_from(low), words), longs)


# The tables


@pytest.mark.skipif(not HEADER.exists(), reason="the kernel's headers are not installed")
def test_every_number_is_the_kernels_and_every_call_the_headers_know_is_decided() -> None:
    header = {name: int(nr) for name, nr in re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text())}
    newest = max(NUMBER.values())
    assert len(header) > 300
    assert {name: NUMBER.get(name) for name, nr in header.items() if nr <= newest} == {
        name: nr for name, nr in header.items() if nr <= newest
    }


def test_every_name_is_decided_exactly_once() -> None:
    grouped = Counter(name for table in SYSCALLS[:3] for group in table for name in group.names)
    assert set((grouped + Counter(CONDITIONAL)).values()) == {1}
    assert grouped.keys() | CONDITIONAL == NUMBER.keys()
    assert len(set(NUMBER.values())) == len(NUMBER)


def test_each_number_gets_the_answer_of_its_group_and_all_others_enosys() -> None:
    expected = {
        NUMBER[name]: reply
        for reply, table in ((ALLOW, SYSCALLS.allowed), (EPERM, SYSCALLS.refused), (ENOSYS, SYSCALLS.absent))
        for group in table
        for name in group.names
    }
    conditional = {NUMBER[name] for name in CONDITIONAL}
    for nr in set(range(1024)) - conditional:
        assert answer(nr) == expected.get(nr, ENOSYS), nr


DANGEROUS = """
unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
mount_setattr io_uring_setup io_uring_enter io_uring_register userfaultfd bpf perf_event_open keyctl add_key request_key
ptrace process_vm_readv process_vm_writev kcmp process_madvise kexec_load kexec_file_load init_module finit_module
delete_module name_to_handle_at open_by_handle_at fanotify_init fanotify_mark quotactl quotactl_fd swapon swapoff reboot
acct syslog vhangup iopl ioperm modify_ldt settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname
memfd_secret mbind migrate_pages move_pages set_mempolicy get_mempolicy set_mempolicy_home_node pidfd_getfd vmsplice
shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink mq_timedsend
mq_timedreceive mq_notify mq_getsetattr statmount listmount listns lsm_set_self_attr lookup_dcookie nfsservctl
"""


@given(st.sampled_from(DANGEROUS.split()), st.tuples(*[longs] * 6))
def test_no_argument_makes_a_dangerous_call_allowed(name: str, args: tuple[int, ...]) -> None:
    assert call(name, *args) == EPERM


@given(st.one_of(st.integers(0, 500), words), st.one_of(st.just(I386), words.filter(lambda arch: arch != X86_64)))
def test_a_call_of_another_architecture_kills_the_process(nr: int, arch: int) -> None:
    assert answer(nr, arch=arch) == KILL


@given(words)
def test_an_x32_call_kills_the_process(nr: int) -> None:
    assert answer(nr | X32) == KILL


@given(st.integers(max(NUMBER.values()) + 1, (1 << 32) - 1).map(lambda nr: nr & ~X32).filter(lambda nr: nr > 1024))
def test_a_number_nobody_decided_on_does_not_exist(nr: int) -> None:
    assert answer(nr) == ENOSYS


def test_the_program_is_well_formed() -> None:
    program = list(struct.iter_unpack("<HBBI", FILTER))
    assert len(program) < 4096
    assert program[-1][0] == 0x06
    for at, (operation, then, otherwise, _) in enumerate(program):
        if operation in (0x15, 0x25, 0x45):
            assert at + 1 + max(then, otherwise) < len(program)


def test_a_machine_without_rules_is_refused_with_a_hint() -> None:
    with pytest.raises(SandboxError, match="aarch64") as caught:
        compile_filter("aarch64", INTERNET)
    assert "x86_64" in caught.value.hint


# Calls whose arguments matter. Each expectation reads the argument as the kernel does: cut to the parameter's type.


TIOCSTI, TIOCLINUX, TIOCSETD, TCGETS, FIONREAD = 0x5412, 0x541C, 0x5423, 0x5401, 0x541B


@given(longs, long(TIOCSTI, TIOCLINUX, TIOCSETD, TCGETS, FIONREAD), longs)
def test_ioctl_knows_only_what_is_on_its_list(fd: int, request: int, arg: int) -> None:
    expected = ALLOW if request & 0xFFFFFFFF in IOCTLS else ENOTTY
    if request & 0xFFFFFFFF in (TIOCSTI, TIOCLINUX, TIOCSETD):
        expected = EPERM
    assert call("ioctl", fd, request, arg) == expected


def test_no_ioctl_types_into_a_terminal_or_loads_its_driver_whatever_bits_are_set_besides() -> None:
    for request in (TIOCSTI, TIOCLINUX, TIOCSETD):
        assert {call("ioctl", 0, request | high) for high in (0, 1 << 32, 1 << 63)} == {EPERM}
    assert call("ioctl", 0, TCGETS) == call("ioctl", 0, FIONREAD) == ALLOW


F_SETFL, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_SETLKW, F_DUPFD_CLOEXEC = 4, 1024, 1026, 1031, 7, 1030


@given(longs, long(F_SETFL, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ), long(0, os.O_DIRECT, os.O_NONBLOCK))
def test_fcntl_knows_only_what_is_on_its_list(fd: int, command: int, arg: int) -> None:
    expected = ALLOW if command & 0xFFFFFFFF in FCNTL_COMMANDS else EPERM
    if command & 0xFFFFFFFF in OPEN_FILE_LOCKS or (command & 0xFFFFFFFF == F_SETFL and arg & os.O_DIRECT):
        expected = EINVAL
    assert call("fcntl", fd, command, arg) == expected


def test_no_fcntl_watches_a_directory_leases_a_file_or_takes_the_pipe_memory_of_others() -> None:
    for command in (F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ):
        assert {call("fcntl", 3, command | high) for high in (0, 1 << 32, 1 << 63)} == {EPERM}
    assert call("fcntl", 3, F_SETLKW) == call("fcntl", 3, F_DUPFD_CLOEXEC) == ALLOW


def test_no_lock_outlives_its_descriptors() -> None:
    for command in OPEN_FILE_LOCKS:
        assert {call("fcntl", 3, command | high) for high in (0, 1 << 32, 1 << 63)} == {EINVAL}


PR_SET_SECCOMP, PR_SCHED_CORE, PR_SET_MEMORY_MERGE, PR_SET_NAME = 22, 62, 67, 15


@given(long(PR_SET_SECCOMP, PR_SCHED_CORE, PR_SET_MEMORY_MERGE, PR_SET_NAME))
def test_prctl_knows_only_what_is_on_its_list(option: int) -> None:
    assert call("prctl", option) == (ALLOW if option & 0xFFFFFFFF in PRCTL_OPTIONS else EINVAL)


def test_no_prctl_loads_a_filter_slows_all_processors_or_merges_memory() -> None:
    for option in (PR_SET_SECCOMP, PR_SCHED_CORE, PR_SET_MEMORY_MERGE):
        assert {call("prctl", option | high) for high in (0, 1 << 32)} == {EINVAL}
    assert call("seccomp", 1) == ENOSYS
    assert call("prctl", PR_SET_NAME) == ALLOW


@given(long(0, 4, 12, 21, 100, 101), longs)
def test_no_advice_about_memory_reaches_that_of_others(advice: int, other: int) -> None:
    refused = advice & 0xFFFFFFFF in (12, 21, 100, 101)
    assert call("madvise", other, other, advice) == (EINVAL if refused else ALLOW)


@given(long(0, 3, 4, 5), longs)
def test_the_page_cache_of_the_host_can_be_neither_emptied_nor_asked(advice: int, other: int) -> None:
    assert call("fadvise64", other, other, other, advice) == (IGNORED if advice & 0xFFFFFFFF == 4 else ALLOW)
    for name in ("preadv2", "pwritev2"):
        plain = not advice & 0xFFFFFFFF & ~0x36  # RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_NOAPPEND
        assert call(name, other, other, other, other, other, advice) == (ALLOW if plain else EOPNOTSUPP)
    assert call("mincore", other, other, other) == call("cachestat", other) == EPERM


@given(
    st.sampled_from([INTERNET, INTERNET | {socket.AF_UNIX}, frozenset()]),
    long(socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET, 38, 40),
    long(*range(1, 7), 1 | socket.SOCK_CLOEXEC, 2 | socket.SOCK_NONBLOCK, 3 | socket.SOCK_CLOEXEC),
    long(0, 1, 6, 17, 33, 132, 136, 255, 256, 262),
)
def test_socket_is_for_the_granted_families_over_tcp_and_udp(
    families: frozenset[int], family: int, kind: int, protocol: int
) -> None:
    expected = ALLOW
    if kind & 0xF not in (1, 2) or protocol & 0xFFFFFFFF not in (0, 6, 17):
        expected = EPERM
    if family & 0xFFFFFFFF not in families:
        expected = EAFNOSUPPORT
    assert call("socket", family, kind, protocol, code=compile_filter("x86_64", families)) == expected


@given(
    long(socket.AF_INET, socket.AF_UNIX, socket.AF_NETLINK),
    long(*range(1, 7), 1 | socket.SOCK_CLOEXEC, 5 | socket.SOCK_NONBLOCK),
    long(0, 1, 6, 17),
)
def test_under_supervision_there_are_local_sockets_that_are_connected(family: int, kind: int, protocol: int) -> None:
    """P2: one of datagrams would send to any path, and no connection is made but by the server."""
    local = family & 0xFFFFFFFF == socket.AF_UNIX
    expected = ALLOW if kind & 0xF in (1, 5) else EPERM
    if not local:
        expected = call("socket", family, kind, protocol)
    assert call("socket", family, kind, protocol, code=SUPERVISED) == expected
    assert call("connect", family, kind, protocol, code=SUPERVISED) == ASK


@given(st.tuples(longs, longs, longs))
def test_the_operators_word_on_sockets_of_the_host_leaves_connections_to_the_kernel(
    words: tuple[int, int, int],
) -> None:
    code = compile_filter("x86_64", INTERNET | {socket.AF_UNIX}, supervised=True)
    assert call("connect", *words, code=code) == ALLOW


@given(st.tuples(longs, longs, longs))
def test_system_v_objects_and_tracing_are_there_for_those_alone_who_may_have_them(words: tuple[int, int, int]) -> None:
    for name in ("shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl"):
        assert (call(name, *words), call(name, *words, code=SUPERVISED)) == (EPERM, ALLOW), name
    assert call("shmget", *words, code=SUPERVISED) == (EPERM if words[2] & 0o4000 else ALLOW)
    for name in ("msgget", "msgsnd", "msgrcv", "msgctl"):
        assert call(name, *words, code=SUPERVISED) == EPERM, name
    traced = compile_filter("x86_64", INTERNET, ptrace=True)
    for name in ("ptrace", "process_vm_readv", "process_vm_writev"):
        assert {call(name, *words), call(name, *words, code=SUPERVISED)} == {EPERM}, name
        assert call(name, *words, code=traced) == ALLOW, name


def test_a_high_bit_does_not_turn_a_unix_socket_into_something_else() -> None:
    assert call("socket", socket.AF_UNIX | 1 << 32, 1, 0) == EAFNOSUPPORT
    assert call("socket", socket.AF_INET, socket.SOCK_RAW | 1 << 32, 0) == EPERM
    assert call("socket", socket.AF_INET, 1, 132 | 1 << 32) == EPERM


@given(long(1, 2, 10, 16), long(*range(1, 7), 1 | socket.SOCK_CLOEXEC))
def test_socketpair_is_for_unix_sockets_only(family: int, kind: int) -> None:
    expected = ALLOW if kind & 0xF in (1, 5) else EPERM
    assert call("socketpair", family, kind) == (expected if family & 0xFFFFFFFF == 1 else EAFNOSUPPORT)


NEW = {1 << 17: "NEWNS", 1 << 25: "NEWCGROUP", 1 << 26: "NEWUTS", 1 << 27: "NEWIPC", 1 << 28: "NEWUSER"}
NEW |= {1 << 29: "NEWPID", 1 << 30: "NEWNET", 1 << 7: "NEWTIME"}
CLONE_PARENT = 1 << 15


@given(longs, st.sampled_from(sorted(NEW)))
def test_clone_never_makes_a_namespace(flags: int, new: int) -> None:
    assert call("clone", flags | new) == EPERM


@given(longs)
def test_clone_without_a_namespace_flag_is_allowed(flags: int) -> None:
    assert call("clone", flags & ~sum(NEW) & ~CLONE_PARENT) == ALLOW


@given(longs)
def test_clone_never_makes_a_child_of_somebody_else(flags: int) -> None:
    assert call("clone", flags | CLONE_PARENT) == EPERM


@given(longs)
def test_the_scheduling_of_pid_1_is_not_changed(word: int) -> None:
    for name in ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        assert call(name, 1, word) == EPERM
        assert call(name, 2, word) == ALLOW
    for name, process in (("setpriority", 0), ("ioprio_set", 1)):
        assert call(name, process, 1) == EPERM
        assert call(name, process, 2) == ALLOW
        assert call(name, process + 1, word) == EPERM


@given(longs, long(*range(16)), long(0, 1), longs)
def test_the_core_limit_can_be_asked_for_but_not_set(pid: int, resource: int, new: int, old: int) -> None:
    core = resource & 0xFFFFFFFF == 4
    asks = not core or new == 0
    expected = ALLOW if asks else IGNORED if old == 0 and new & 0xFFFF_FFFF else EPERM
    assert call("prlimit64", pid, resource, new, old) == expected
    assert call("setrlimit", resource, new) == (IGNORED if core else ALLOW)


@given(
    st.sampled_from([("mknod", 1), ("mknodat", 2)]),
    long(*(kind | 0o644 for kind in range(0, 0o200000, 0o10000))),
    st.tuples(*[longs] * 4),
)
def test_only_pipes_and_plain_files_can_be_made(where: tuple[str, int], mode: int, args: tuple[int, ...]) -> None:
    name, place = where
    harmless = mode & 0o170000 in (0, stat.S_IFREG, stat.S_IFIFO) and not mode & 0o6000
    assert call(name, *args[:place], mode, *args[place:]) == (ALLOW if harmless else EPERM)


@given(
    st.sampled_from([("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1)]),
    long(0o644, 0o1777, 0o4755, 0o2755, 0o6000),
    st.tuples(*[longs] * 4),
)
def test_no_file_lends_the_rights_of_its_owner(where: tuple[str, int], mode: int, args: tuple[int, ...]) -> None:
    """W4: a program of root's that anybody may start, in a directory that the sandbox may write, were root's end."""
    name, place = where
    assert call(name, *args[:place], mode, *args[place:]) == (EPERM if mode & 0o6000 else ALLOW)


@given(
    st.sampled_from([("open", 1), ("openat", 2)]),
    long(0, os.O_CREAT, os.O_CREAT | os.O_WRONLY, os.O_TMPFILE, os.O_DIRECTORY, os.O_TMPFILE | os.O_CREAT, os.O_DIRECT),
    long(0, 0o644, 0o4755, 0o2755),
    st.tuples(*[longs] * 3),
)
def test_no_file_is_made_that_does(where: tuple[str, int], flags: int, mode: int, args: tuple[int, ...]) -> None:
    """W4: where nothing is made the mode means nothing, and may be anything."""
    name, place = where
    makes = flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY)
    expected = EPERM if makes and mode & 0o6000 else ALLOW
    answer = call(name, *args[:place], flags, mode, *args[place:])
    assert answer == (EINVAL if flags & os.O_DIRECT else expected)


@given(long(0, 8, 0xFFFFFFFF, 0x40000, 0x100000, 0x400000))
def test_personality_keeps_the_memory_layout_strong(persona: int) -> None:
    assert call("personality", persona) == (ALLOW if persona & 0xFFFFFFFF in (0, 8, 0xFFFFFFFF) else EPERM)


@given(longs, longs)
def test_huge_pages_of_the_host_stay_with_the_host(flags: int, other: int) -> None:
    assert call("mmap", other, other, other, flags) == (EPERM if flags & 0x40000 else ALLOW)
    assert call("memfd_create", other, flags) == (EPERM if flags & 4 else ALLOW)


@given(long(0, 1, 6, 17, 41), long(*range(84)))
def test_socket_options_are_those_of_the_table(level: int, option: int) -> None:
    known = next((one for one in load_socket_options().values() if one.level == level & 0xFFFFFFFF), None)
    settable, readable = (known.settable.values(), known.readable.values()) if known else ((), ())
    buffers = level & 0xFFFFFFFF == socket.SOL_SOCKET and option & 0xFFFFFFFF in (socket.SO_RCVBUF, socket.SO_SNDBUF)
    expected = ALLOW if option & 0xFFFFFFFF in settable else ENOPROTOOPT
    assert call("setsockopt", 3, level, option) == (IGNORED if buffers else expected)
    expected = ALLOW if option & 0xFFFFFFFF in (*settable, *readable) else ENOPROTOOPT
    assert call("getsockopt", 3, level, option) == expected


SHARED = [  # options with an object or a lock behind them that is not the socket's own
    (socket.IPPROTO_IP, {"IP_OPTIONS": 4, "IP_MINTTL": 21, "IP_MSFILTER": 41, "IP_MULTICAST_IF": 32}),
    (socket.IPPROTO_IP, {"IP_ADD_MEMBERSHIP": 35, "IP_ADD_SOURCE_MEMBERSHIP": 39, "IP_BLOCK_SOURCE": 38}),
    (socket.IPPROTO_IP, {"MCAST_JOIN_GROUP": 42, "MCAST_JOIN_SOURCE_GROUP": 46, "MCAST_MSFILTER": 48}),
    (socket.IPPROTO_IPV6, {"IPV6_JOIN_GROUP": 20, "IPV6_JOIN_ANYCAST": 27, "IPV6_FLOWLABEL_MGR": 32}),
    (socket.IPPROTO_IPV6, {"MCAST_JOIN_GROUP": 42, "MCAST_JOIN_SOURCE_GROUP": 46, "IPV6_HOPOPTS": 54}),
    (socket.SOL_SOCKET, {"SO_ATTACH_FILTER": 26, "SO_ATTACH_REUSEPORT_CBPF": 51, "SO_ZEROCOPY": 60}),
    (socket.SOL_SOCKET, {"SO_TIMESTAMP": 29, "SO_PASSPIDFD": 76, "SO_PEERPIDFD": 77}),
    (socket.IPPROTO_TCP, {"TCP_ULP": 31, "TCP_MD5SIG": 14, "TCP_AO_ADD_KEY": 38, "TCP_ZEROCOPY_RECEIVE": 35}),
    (socket.IPPROTO_UDP, {"UDP_ENCAP": 100, "UDP_GRO": 104}),
]


def test_no_socket_option_makes_an_object_or_takes_a_lock_that_is_not_the_sockets_own() -> None:
    for level, options in SHARED:
        for name, option in options.items():
            for high in (0, 1 << 32, 1 << 63):
                answers = {call(which, 3, level | high, option | high) for which in ("setsockopt", "getsockopt")}
                assert answers == {ENOPROTOOPT}, name


# The page


PROSE = """\
# System calls in a sandbox

Made from `sandbox/seccomp/syscalls.toml` and its neighbours by `python
tests/sandbox/test_seccomp.py`; a test keeps it current. The filter is a wall of its own: it stands
also where a namespace or a missing capability would refuse as well.

A call of another architecture (32-bit, x32) ends the process. A number that is not listed, such as
one of a newer kernel, answers `ENOSYS`. There are rules for: {machines}.

## Allowed

{allowed}

## Allowed, depending on the arguments

What is refused answers `EPERM` where nothing else is said; an address family, `EAFNOSUPPORT`.

| Call | What is allowed, and why no more |
|---|---|
{rules}

## Where a workspace may be written

What follows takes the place of the rules and groups above where programs may write to a workspace.
Calls that the server makes for them wait for it (`SECCOMP_RET_USER_NOTIF`).

| Call | What is allowed, and why no more |
|---|---|
{supervised}

## Where the operator lets programs be traced

`policy.ptrace` adds these.

| Call | What is allowed, and why no more |
|---|---|
{tracing}

## Socket options

Options of one level each that may be set and read, and those that may be read alone.

{options}

## Refused: `EPERM`

{refused}

## Absent: `ENOSYS`

As in a kernel built without them, so that programs choose another way by themselves.

{absent}
"""


def table(groups: tuple[SyscallGroup, ...]) -> str:
    rows = (f"| {group.title} | {group.reason} | {' '.join(f'`{name}`' for name in group.names)} |" for group in groups)
    return "\n".join(["| Group | Why | Calls |", "|---|---|---|", *rows])


def further_rules(**more: bool) -> str:
    common = rules(INTERNET)
    return "\n".join(f"| `{rule.name}` | {rule.promise} |" for rule in rules(INTERNET, **more) if rule not in common)


def options_table() -> list[str]:
    rows = (
        f"| `{level}` | {' '.join(f'`{name}`' for name in options.settable)}"
        f" | {' '.join(f'`{name}`' for name in options.readable)} |"
        for level, options in load_socket_options().items()
    )
    return ["| Level | Set and read | Read |", "|---|---|---|", *rows]


def page() -> str:
    return PROSE.format(
        machines=", ".join(sorted(SYSCALLS.numbers)),
        allowed=table(SYSCALLS.allowed),
        rules="\n".join(f"| `{rule.name}` | {rule.promise} |" for rule in rules(INTERNET)),
        supervised=further_rules(supervised=True),
        tracing=further_rules(ptrace=True),
        options="\n".join(options_table()),
        refused=table(SYSCALLS.refused),
        absent=table(SYSCALLS.absent),
    )


def test_the_page_on_system_calls_is_current() -> None:
    assert PAGE.read_text() == page(), "run: python tests/sandbox/test_seccomp.py"


if __name__ == "__main__":
    PAGE.write_text(page())
