"""P8: who holds very many locks on files, of which the kernel keeps no account, is found and ended."""

import os
import time

import pytest

from gloveport.sandbox.cgroups import file_locks
from gloveport.sandbox.cgroups.open_files import find_family

MAKE = """
import fcntl, os, struct, tempfile, time
directory = tempfile.TemporaryDirectory()
os.chdir(directory.name)
def lock(kind, files=10, each=30):
    for number in range(files):
        file = os.open(f"{number}", os.O_RDWR | os.O_CREAT)
        for place in range(each):
            fcntl.fcntl(file, kind, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0))
"""
KINDS = {"POSIX": "lock(fcntl.F_SETLK)", "open file": "lock(37)", "in a child": "os.fork() or lock(37)"}


@pytest.mark.parametrize("kind", KINDS)
def test_locks_are_found(start, kind):
    child = start(f"print('begun', flush=True)\n{MAKE}{KINDS[kind]}\ntime.sleep(1000)")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 20
    while not (more := file_locks.hold_more(find_family([child.pid]), 299)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert more
    assert not file_locks.hold_more(find_family([child.pid]), 300)


def test_an_ordinary_program_holds_few(start):
    child = start("print('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not file_locks.has_many([child.pid])
    assert not file_locks.has_many([os.getpid()])


def test_the_kernels_own_memory_can_be_read():
    assert file_locks.read_kernel_bytes() > 1 << 20
