"""P8: who holds very many locks on files, of which the kernel keeps no account, is found and ended."""

import os
import time

import pytest

from gloveport.sandbox.cgroups import open_files
from gloveport.sandbox.cgroups.open_files import LOCKS

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
LONG_PATH = """
while True:
    try: os.readlink(f"/proc/self/fd/{os.open('.', os.O_RDONLY)}")
    except OSError: break
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
lock(fcntl.F_SETLK)
"""
PIPES = """
os.open = lambda *_: os.pipe()[1]
lock(fcntl.F_SETLK)
"""
KINDS = {
    "POSIX": "lock(fcntl.F_SETLK)",
    "open file": "lock(37)",
    "in a child": "import ctypes; os.fork() or ctypes.CDLL(None).prctl(1, 9) or lock(37)",  # it dies with its parent
    "long path": LONG_PATH,
    "in pipes": PIPES,
}


@pytest.mark.parametrize("kind", KINDS)
def test_locks_are_found(start, kind):
    child = start(f"print('begun', flush=True)\n{MAKE}{KINDS[kind]}\ntime.sleep(1000)")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 20
    while not (more := open_files.hold_more([child.pid], 299, LOCKS)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert more
    assert not open_files.hold_more([child.pid], 300, LOCKS)


def test_an_ordinary_program_holds_few(start):
    child = start("print('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not open_files.has_many_locks([child.pid])
    assert not open_files.has_many_locks([os.getpid()])


def test_the_kernels_own_memory_can_be_read():
    assert open_files.read_kernel_bytes() > 1 << 20
