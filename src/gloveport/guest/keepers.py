"""Keepers: pid 1 of each pid namespace of the fork server's, made by a process of their own.

A keeper does nothing: it shares the memory of the process that makes it, runs no Python, and is in libc's ``pause``.
The kernel itself reaps what it is left. Standard library only.
"""

import _signal as signal
import _socket as socket
import _struct as struct
import ctypes
import itertools
import mmap
import os
import sys

CLONE_NEWPID = 0x20000000
CLONE_VM, CLONE_FS, CLONE_FILES = 0x100, 0x200, 0x400
KEEPER = CLONE_NEWPID | CLONE_VM | CLONE_FS | CLONE_FILES
KEEPER_STACKS, KEEPER_STACK_BYTES = 256, 1 << 12  # more than there are: who shares one does the same on it, in any case
ORPHANS_BYTES = 4096  # of a list of processes, which may be long

_libc = ctypes.PyDLL(None, use_errno=True)  # as in ``walls.py``


def start_keepers():
    """Fork the process that makes pid namespaces, with a keeper in each. Its settings of signals are theirs.

    Returns a socket: for each byte a descriptor of a keeper comes back, or the number of the error.
    """
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours
    try:
        ours.close()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the kernel reaps what is left to a keeper
        # With no signal handled or blocked, the kernel drops what a program sends to a keeper. Blocked, it would queue.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        memory = mmap.mmap(-1, KEEPER_STACKS * KEEPER_STACK_BYTES)  # of which only what is used is there
        stacks = (ctypes.c_char * len(memory)).from_buffer(memory)
        tops = [ctypes.addressof(stacks) + KEEPER_STACK_BYTES * (n + 1) & -16 for n in range(KEEPER_STACKS)]
        for top in itertools.cycle(tops):
            if not theirs.recv(1):
                break
            pid = _libc.clone(_libc.pause, ctypes.c_void_p(top), KEEPER | signal.SIGCHLD, None)
            if pid < 0:
                theirs.send(bytes([ctypes.get_errno()]))
                continue
            os.setpgid(pid, pid)  # what is done to its process group is done to nobody else
            try:
                keeper = os.pidfd_open(pid)
                theirs.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", keeper))])
                os.close(keeper)
            except OSError as error:  # no descriptor is to be had, or too many are on their way
                os.kill(pid, signal.SIGKILL)
                theirs.send(bytes([error.errno]))
    finally:
        os._exit(0)


def new_keeper(keepers):
    """A descriptor of a keeper, pid 1 of a new namespace. Raises OSError where there is none to be had."""
    keepers.send(b"K")
    error, ancillary, _, _ = keepers.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    if not error:
        sys.exit("zygote: the process that makes pid namespaces has died")
    if not ancillary:  # the number is 0 where we have no room for it
        raise OSError(error[0], f"no pid namespace: {os.strerror(error[0])}")
    return struct.unpack("i", ancillary[0][2][:4])[0]


def count_orphans(keeper):
    """How many processes that a program has left behind a keeper has been given, about; 0 where nobody can tell."""
    try:
        told = read_words(f"/proc/self/fdinfo/{keeper}")
        pid = int(told[told.index(b"Pid:") + 1])
        return len(read_words(f"/proc/{pid}/task/{pid}/children"))
    except (OSError, ValueError):
        return 0


def read_words(path):
    """The first words of a file: somebody waits for them, and ``open`` takes four times as long. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, ORPHANS_BYTES).split()
    finally:
        os.close(file)
