"""Restricts the calling process and its children by Landlock: the second wall behind the mounts.

Three system calls without libc wrappers. A right that is handled here and granted to no path is denied. Standard
library only.
"""

import _ctypes
import _struct
import posix
from _stat import S_ISDIR

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK, REFER = 1 << 6, 1 << 9, 1 << 11, 1 << 13
ALL = (1 << 16) - 1
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# The rights that each word of a rule grants. None includes making device nodes.
KINDS = {
    "read": READ_FILE | READ_DIR,
    "run": READ_FILE | READ_DIR | EXECUTE,
    "write": ALL & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV),
    "write files": ALL & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV | MAKE_SOCK),
    "device": READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV,
}
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2
NO_LOG = 1 | 4  # LOG_SAME_EXEC_OFF, LOG_SUBDOMAINS_OFF: else each refusal is a line in the host's audit log


class Int(_ctypes._SimpleCData):  # noqa: SLF001 - ``ctypes`` takes longer to import than all else here
    """A C int."""

    _type_ = "i"


class Call(_ctypes.CFuncPtr):
    """A function of libc's, as ``ctypes.PyDLL(None, use_errno=True)`` has it."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = Int


class Libc:
    """The functions of libc that are needed here. They return an int."""

    def __init__(self, *names):
        library = _ctypes.dlopen(None, 0)
        for name in names:
            function = Call(_ctypes.dlsym(library, name))
            function.__name__ = name
            setattr(self, name, function)


_libc = Libc("prctl", "syscall")


def abi():
    """Landlock's ABI in this kernel; 0 where it is missing or switched off."""
    return max(0, _libc.syscall(CREATE_RULESET, None, 0, 1))


def calls(rules, ruleset, place):
    """The calls that restrict a process to ``rules``: pairs of a path and a word of ``KINDS``.

    ``ruleset`` and ``place`` are the two lowest descriptors that will be free. Returns the ABI that is enforced then,
    and the calls as ``init.perform`` takes them; no calls where the ABI is 0. A rule's path that does not exist is an
    error: a plan names only existing paths. TCP is not handled: the network namespace has only its own loopback, which
    programs may use.
    """
    version = abi()
    if version == 0:
        return 0, []
    handled = ALL
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if version < since:
            handled &= ~right
    # struct landlock_ruleset_attr: file rights, TCP rights (ABI 4), scopes (ABI 6); an older kernel refuses more.
    attributes = _struct.pack("QQQ", handled, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    attributes = attributes[: 24 if version >= 6 else 16 if version >= 4 else 8]
    steps = [(_libc.syscall, (CREATE_RULESET, attributes, len(attributes), 0))]
    for path, kind in rules:
        allowed = KINDS[kind] & handled
        if not S_ISDIR(posix.stat(path).st_mode):
            allowed &= ON_A_FILE  # a directory's right on a plain file is EINVAL
        rule = _struct.pack("=Qi", allowed, place)  # struct landlock_path_beneath_attr is packed
        steps += [
            (posix.open, (path, posix.O_PATH | posix.O_CLOEXEC)),
            (_libc.syscall, (ADD_RULE, ruleset, PATH_BENEATH, rule, 0)),
            (posix.close, (place,)),
        ]
    steps += [
        (_libc.prctl, (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)),
        (_libc.syscall, (RESTRICT_SELF, ruleset, NO_LOG if version >= 7 else 0)),
        (posix.close, (ruleset,)),
    ]
    return version, steps
