"""Compiles the system call filter: a classic-BPF program, made of ``syscalls.toml`` and ``argument_rules``.

What it promises: a call of another architecture ends the process; a call that nobody decided on answers ENOSYS, so that
a new kernel opens nothing; every rule ends in an answer, none falls through to the next.
"""

import struct
from collections.abc import Iterator
from functools import cache
from itertools import groupby

from gloveport.errors import SandboxError
from gloveport.sandbox.seccomp.argument_rules import ALLOW, ENOSYS, EPERM, Checks, Unless, rules
from gloveport.sandbox.seccomp.tables import load_syscalls

KILL = 0x8000_0000  # SECCOMP_RET_KILL_PROCESS

_ARCHITECTURES = {"x86_64": 0xC000_003E}  # AUDIT_ARCH_X86_64
_X32 = 0x4000_0000  # set in the number of an x32 call, which the architecture does not tell from a native one

_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data


@cache
def compile_filter(machine: str, families: frozenset[int], *, supervised: bool = False, ptrace: bool = False) -> bytes:
    """The filter as an array of ``struct sock_filter``: what bubblewrap and ``PR_SET_SECCOMP`` load. Pure. ``machine``
    is the host's architecture, as ``os.uname().machine`` says it; for the others see ``rules``. A supervised filter is
    loaded with a listener, which answers some calls.

    Raises:
        SandboxError: There are no rules for this architecture.
    """
    calls = load_syscalls()
    if machine not in calls.numbers:
        raise SandboxError(
            f"no system call filter for the architecture {machine!r}",
            hint=f"run on one of: {', '.join(sorted(calls.numbers))}",
        )
    numbers = calls.numbers[machine]
    code = [
        _load(_ARCHITECTURE),
        _jump_equal(_ARCHITECTURES[machine], then=1),
        _answer(KILL),
        _load(_NUMBER),
        _instruction(0x45, _X32, otherwise=1),  # BPF_JMP | BPF_JSET | BPF_K
        _answer(KILL),
    ]
    conditional = {numbers[rule.name]: rule for rule in rules(families, supervised=supervised, ptrace=ptrace)}
    for number, rule in conditional.items():
        body = [*_checks(rule.checks), _answer(rule.answer)]
        code += [_jump_equal(number, otherwise=len(body)), *body]
    answers = {
        numbers[name]: answer
        for answer, groups in ((ALLOW, calls.allowed), (EPERM, calls.refused), (ENOSYS, calls.absent))
        for group in groups
        for name in group.names
    }
    # What is left depends on the number alone. A ladder in rising order: what no lower rung took and is not above this
    # run of equal answers belongs to it. The kernel works out such answers once, when the filter is loaded.
    rest = (number for number in range(max(numbers.values()) + 1) if number not in conditional)
    for answer, run in groupby(rest, lambda number: answers.get(number, ENOSYS)):
        code += [
            _instruction(0x25, max(run), then=1),  # BPF_JMP | BPF_JGT | BPF_K; unsigned
            _answer(answer),
        ]
    return b"".join([*code, _answer(ENOSYS)])


def _checks(checks: Checks) -> Iterator[bytes]:
    for check in checks:
        yield _load(check.word)
        if isinstance(check, Unless):
            if check.mask != 0xFFFF_FFFF:
                yield _instruction(0x54, check.mask)  # BPF_ALU | BPF_AND | BPF_K
            for distance, value in zip(range(len(check.values), 0, -1), sorted(check.values), strict=True):
                yield _jump_equal(value, then=distance)  # over the values that are left and the answer
            yield _answer(check.answer)
        else:
            body = [*_checks(check.checks), _answer(check.answer)]
            yield _jump_equal(check.value, otherwise=len(body))
            yield from body


def _instruction(code: int, constant: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, constant)  # jumps skip so many instructions


def _load(offset: int) -> bytes:
    return _instruction(0x20, offset)  # BPF_LD | BPF_W | BPF_ABS


def _jump_equal(constant: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return _instruction(0x15, constant, then, otherwise)  # BPF_JMP | BPF_JEQ | BPF_K


def _answer(value: int) -> bytes:
    return _instruction(0x06, value)  # BPF_RET | BPF_K
