"""Keepers: pid 1 of each of the fork server's pid namespaces, made by a process of their own.

A keeper does nothing: it shares the memory of the process that makes it, runs no Python, and is in libc's ``pause``.
The kernel itself reaps the orphans that it inherits. Standard library only.
"""

import _signal as signal
import _socket as socket
import _struct as struct
import ctypes
import itertools
import mmap
import os

CLONE_NEWPID = 0x20000000
CLONE_VM, CLONE_FS, CLONE_FILES = 0x100, 0x200, 0x400
KEEPER = CLONE_NEWPID | CLONE_VM | CLONE_FS | CLONE_FILES
KEEPER_STACKS, KEEPER_STACK_BYTES = 256, 1 << 12  # more than keepers; two that share a stack do the same on it anyway
ORPHANS_BYTES = 4096  # of a list of processes, which may be long

_libc = ctypes.PyDLL(None, use_errno=True)  # as in ``walls.py``


def start_keepers():
    """Fork the process that makes pid namespaces, with a keeper in each. Keepers inherit its signal settings.

    Returns its process id, and a socket: for each byte, the pidfd of a new keeper comes back, or an errno.
    """
    ours, theirs = socket.socketpair()
    if maker := os.fork():
        theirs.close()
        return maker, ours
    try:
        ours.close()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that the kernel reaps the orphans of a keeper
        # The kernel drops signals that a program sends to a keeper, if none is handled or blocked; blocked ones queue.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        memory = mmap.mmap(-1, KEEPER_STACKS * KEEPER_STACK_BYTES)  # only used pages are allocated
        stacks = (ctypes.c_char * len(memory)).from_buffer(memory)
        tops = [ctypes.addressof(stacks) + KEEPER_STACK_BYTES * (n + 1) & -16 for n in range(KEEPER_STACKS)]
        for top in itertools.cycle(tops):
            if not theirs.recv(1):
                break
            pid = _libc.clone(_libc.pause, ctypes.c_void_p(top), KEEPER | signal.SIGCHLD, None)
            if pid < 0:
                theirs.send(bytes([ctypes.get_errno()]))
                continue
            os.setpgid(pid, pid)  # so that a signal to its process group reaches nobody else
            try:
                keeper = os.pidfd_open(pid)
                theirs.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", keeper))])
                os.close(keeper)
            except OSError as error:  # no free descriptor, or too many in flight
                os.kill(pid, signal.SIGKILL)
                theirs.send(bytes([error.errno]))
    finally:
        os._exit(0)


def new_keeper(keepers):
    """Get the pidfd of a new keeper, pid 1 of a new namespace. Raises OSError where none can be made."""
    keepers.send(b"K")
    error, ancillary, _, _ = keepers.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    if not error:
        raise BrokenPipeError("the process that makes pid namespaces has died")
    if not ancillary:  # errno is 0 where this process had no free descriptor for it
        raise OSError(error[0], f"no pid namespace: {os.strerror(error[0])}")
    return struct.unpack("i", ancillary[0][2][:4])[0]


def count_orphans(keeper):
    """About how many orphans of a program a keeper has inherited; 0 where that is unknown."""
    try:
        words = read_words(f"/proc/self/fdinfo/{keeper}")
        pid = int(words[words.index(b"Pid:") + 1])
        return len(read_words(f"/proc/{pid}/task/{pid}/children"))
    except (OSError, ValueError):
        return 0


def read_words(path):
    """The first words of a file. Not by ``open``, which takes four times as long: the host waits. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, ORPHANS_BYTES).split()
    finally:
        os.close(file)
